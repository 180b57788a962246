//! Builds the ramdisk from unpacked packages; `cargo xtask ramdisk` fetches
//! them and calls this.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use wrought_ramdisk::Disc;
use wrought_ramdisk::Inputs;
use wrought_ramdisk::build;
use wrought_ramdisk::disc;
use wrought_ramdisk::missing;
use wrought_ramdisk::modules;

const USAGE: &str = "\
usage: wrought-ramdisk --agent FILE --kernel DIR --stub FILE --out DIR
           [--firmware DIR…] [--package DIR…] [--library DIR…] [--grub DIR…]
           [--add FILE:/PATH…] [--rescue] [--param KEY=VALUE…] [--ca FILE]
       wrought-ramdisk disc --ramdisk DIR --out FILE [--param KEY=VALUE…] [--ca FILE]
       wrought-ramdisk modules --kernel DIR --out DIR NAME…
       wrought-ramdisk missing [--package DIR…] [--library DIR…]
All DIRs but --out and --ramdisk are unpacked distribution packages; each option
takes one value and can be given again. `disc` makes a bootable disc of a built
ramdisk, with parameters of its own. `missing` prints, a line each, the libraries
that the packages ask for and nobody has, a tab, and who asks.";

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("wrought-ramdisk: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String> {
    let mut words: Vec<String> = Vec::new();
    for word in std::env::args_os().skip(1) {
        let word = word.into_string();
        words.push(word.map_err(|word| anyhow::anyhow!("{word:?} is not UTF-8"))?);
    }
    let task = match words.first().map(String::as_str) {
        Some("disc" | "modules" | "missing") => words.remove(0),
        _ => String::new(),
    };
    let given = Given::parse(words)?;
    let one = |name| given.one(name).context(USAGE);
    match task.as_str() {
        "modules" => modules(&one("--kernel")?, &given.names, &one("--out")?),
        "missing" => {
            let found = missing(&given.all("--package"), &given.all("--library"))?;
            let lines: Vec<String> = found
                .iter()
                .map(|m| format!("{}\t{}", m.library, m.wanted_by.display()))
                .collect();
            Ok(lines.join("\n"))
        }
        "disc" => disc(&one("--ramdisk")?, &given.disc()?, &one("--out")?),
        _ => {
            let inputs = Inputs {
                agent: one("--agent")?,
                kernel: one("--kernel")?,
                stub: one("--stub")?,
                firmware: given.all("--firmware"),
                packages: given.all("--package"),
                libraries: given.all("--library"),
                grub: given.all("--grub"),
                added: given.added()?,
                rescue: given.rescue,
                disc: given.disc()?,
            };
            build(&inputs, &one("--out")?)
        }
    }
}

/// Options that take a value.
const OPTIONS: [&str; 12] = [
    "--agent",
    "--kernel",
    "--stub",
    "--out",
    "--firmware",
    "--package",
    "--library",
    "--grub",
    "--add",
    "--param",
    "--ca",
    "--ramdisk",
];

/// The command line's options with their values, and its other words.
#[derive(Default)]
struct Given {
    options: Vec<(String, String)>,
    names: Vec<String>,
    rescue: bool,
}

impl Given {
    fn parse(words: Vec<String>) -> Result<Self> {
        let mut given = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "--rescue" {
                given.rescue = true;
            } else if OPTIONS.contains(&word.as_str()) {
                let value = words.next().context(USAGE)?;
                given.options.push((word, value));
            } else if word.starts_with("--") {
                bail!("no option {word}\n{USAGE}");
            } else {
                given.names.push(word);
            }
        }
        Ok(given)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options
            .iter()
            .filter(move |(option, _)| option == name)
            .map(|(_, value)| value.as_str())
    }

    fn one(&self, name: &str) -> Option<PathBuf> {
        self.values(name).last().map(PathBuf::from)
    }

    fn all(&self, name: &str) -> Vec<PathBuf> {
        self.values(name).map(PathBuf::from).collect()
    }

    fn disc(&self) -> Result<Disc> {
        let ca = self.one("--ca");
        let ca = ca
            .map(|file| std::fs::read(&file).with_context(|| format!("reading {}", file.display())))
            .transpose()?;
        Ok(Disc {
            params: self.values("--param").map(str::to_owned).collect(),
            ca,
        })
    }

    /// `FILE:/PATH`.
    fn added(&self) -> Result<Vec<(String, PathBuf)>> {
        self.values("--add")
            .map(|text| {
                let (file, path) = text
                    .rsplit_once(":/")
                    .with_context(|| format!("--add {text}: expected FILE:/PATH"))?;
                Ok((path.to_owned(), PathBuf::from(file)))
            })
            .collect()
    }
}
