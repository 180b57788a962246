//! Recipes for qcow2 images that QEMU's tools make: each number gives
//! another image, the same in every run.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::MIB;
use super::Random;
use super::disk;
use super::put_mbr;
use super::put_table;

/// Part of every image's seed, for whoever wants other images.
pub(crate) const SEED: u64 = 0x5eed;

/// Bytes of a GPT at the start of the disk; its backup has a sector less.
const TABLE: usize = 34 * 512;

/// How one image is made.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) number: u64,
    /// 9 to 21.
    pub(crate) cluster_bits: u32,
    /// Bytes of the disk at first; it may grow.
    first: usize,
    /// `-o` of qemu-img.
    options: String,
    start: Start,
    rounds: Vec<Round>,
}

/// What the image is before anything is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Converted from a raw disk.
    Converted,
    /// The same, with compressed clusters.
    Compressed,
    /// Made empty; the table is written to it.
    Empty,
}

/// One run of a tool.
#[derive(Debug)]
enum Round {
    /// qemu-io with these commands.
    Io(Vec<String>),
    /// The same, killed before it closes the image: the dirty bit stays.
    Killed(Vec<String>),
    /// qemu-img with these arguments, then the image's name.
    Img(Vec<String>),
    /// qemu-img resize to this size.
    Resize(usize),
}

/// What the drawn features allow.
struct Allowed {
    v2: bool,
    extended: bool,
    refcount_bits: u32,
    lazy: bool,
}

impl Recipe {
    /// The image of that number.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = Random::new(SEED ^ (number << 16));
        // A few first values of such generators are alike.
        for _ in 0..8 {
            random.next();
        }
        let cluster_bits = 9 + (number % 13) as u32;
        let mut options = format!("cluster_size={}", 1 << cluster_bits);
        let v2 = random.below(6) == 0;
        let extended = !v2 && cluster_bits >= 14 && random.below(3) == 0;
        let refcount_bits = if v2 { 16 } else { 1 << random.below(7) };
        let zstd = !v2 && random.below(2) == 0;
        let lazy = !v2 && random.below(4) == 0;
        let start = match random.below(3) {
            0 => Start::Empty,
            1 => Start::Compressed,
            _ => Start::Converted,
        };
        if v2 {
            options += ",compat=0.10";
        } else {
            write!(options, ",refcount_bits={refcount_bits}").unwrap();
        }
        if extended {
            options += ",extended_l2=on";
        }
        if zstd {
            options += ",compression_type=zstd";
        }
        if lazy {
            options += ",lazy_refcounts=on";
        }
        if start != Start::Compressed && random.below(4) == 0 {
            options += ",preallocation=metadata";
        }
        // Small clusters make QEMU slow, large ones need room.
        let least = if cluster_bits < 14 { 4 } else { 6 };
        let more = match cluster_bits {
            ..12 => 5,
            12..17 => 20,
            _ => 58,
        };
        let sectors = (least * MIB + random.below(more * MIB as u64) as usize) / 512;
        let mut recipe = Self {
            number,
            cluster_bits,
            first: sectors * 512,
            options,
            start,
            rounds: Vec::new(),
        };
        let allowed = Allowed {
            v2,
            extended,
            refcount_bits,
            lazy,
        };
        recipe.draw_rounds(&allowed, &mut random);
        recipe
    }

    fn draw_rounds(&mut self, allowed: &Allowed, random: &mut Random) {
        let mut snapshots = 0;
        let mut size = self.first;
        for _ in 0..random.below(5) {
            let round = match random.below(8) {
                0 if allowed.refcount_bits >= 8 => {
                    snapshots += 1;
                    image(&["snapshot", "-c", &format!("s{snapshots}")])
                }
                1 if snapshots > 0 && size == self.first => {
                    image(&["snapshot", "-a", &format!("s{snapshots}")])
                }
                2 if snapshots > 1 => {
                    snapshots -= 1;
                    image(&["snapshot", "-d", &format!("s{}", snapshots + 1)])
                }
                3 if snapshots == 0 => {
                    size += random.below(16 * MIB as u64) as usize / 512 * 512;
                    Round::Resize(size)
                }
                4 if !allowed.v2 => image(&["bitmap", "--add"]),
                5 if allowed.lazy => {
                    let mut commands = self.commands(size, random);
                    commands.push("flush".to_owned());
                    Round::Killed(commands)
                }
                _ => Round::Io(self.commands(size, random)),
            };
            self.rounds.push(round);
        }
    }

    /// Commands of one qemu-io.
    fn commands(&self, size: usize, random: &mut Random) -> Vec<String> {
        let cluster = 1u64 << self.cluster_bits;
        // Both ends are touched, but for the tables.
        let (first, last) = (TABLE as u64, (size - TABLE) as u64);
        let mut commands = Vec::new();
        for _ in 0..4 + random.below(20) {
            let at = first + random.below(last - first) / 512 * 512;
            let most = (last - at).min(512 << random.below(12));
            let len = (512 + random.below(most)).min(last - at) / 512 * 512;
            let pattern = random.below(255) + 1;
            let whole = at.next_multiple_of(cluster);
            match random.below(8) {
                0 => commands.push(format!("write -z {at} {len}")),
                1 => commands.push(format!("write -z -u {at} {len}")),
                2 => commands.push(format!("discard {at} {len}")),
                3 if whole + cluster <= last => {
                    // QEMU compresses into clusters without content only.
                    commands.push(format!("discard {whole} {cluster}"));
                    commands.push(format!("write -c -P {pattern} {whole} {cluster}"));
                }
                _ => commands.push(format!("write -P {pattern} {at} {len}")),
            }
        }
        commands
    }

    /// Whether the disk is resized: then a GPT's backup would be moved.
    fn is_resized(&self) -> bool {
        let resized = |round: &Round| matches!(round, Round::Resize(_));
        self.rounds.iter().any(resized)
    }

    /// Makes the image in `dir`; the commands are in the panic of a failed
    /// one.
    pub(crate) fn make(&self, dir: &Path) -> PathBuf {
        let path = dir.join("image.qcow2");
        let name = path.to_str().unwrap();
        let mut bytes = disk(self.first, self.number);
        if self.is_resized() {
            bytes[..TABLE].fill(0);
            put_mbr(&mut bytes, self.number);
        } else {
            put_table(&mut bytes, 512, self.number);
        }
        let raw = dir.join("in.raw");
        let raw_name = raw.to_str().unwrap();
        if self.start == Start::Empty {
            let size = self.first.to_string();
            let line = ["create", "-f", "qcow2", "-o", &self.options, name, &size];
            self.run("qemu-img", &line);
            let (head, tail) = (TABLE, self.first - (TABLE - 512));
            fs::write(&raw, &bytes[..head]).unwrap();
            let tail_raw = dir.join("tail.raw");
            fs::write(&tail_raw, &bytes[tail..]).unwrap();
            let commands = [
                format!("write -s {raw_name} 0 {head}"),
                format!("write -s {} {tail} {}", tail_raw.display(), (TABLE - 512)),
            ];
            self.io(&commands, name, false);
        } else {
            fs::write(&raw, &bytes).unwrap();
            let mut line = vec!["convert", "-f", "raw", "-O", "qcow2", "-o", &self.options];
            line.extend((self.start == Start::Compressed).then_some("-c"));
            line.extend([raw_name, name]);
            self.run("qemu-img", &line);
        }
        for (number, round) in self.rounds.iter().enumerate() {
            match round {
                Round::Io(commands) => self.io(commands, name, false),
                Round::Killed(commands) => self.io(commands, name, true),
                Round::Resize(size) => {
                    self.run("qemu-img", &["resize", name, &size.to_string()]);
                }
                Round::Img(line) => {
                    let bitmap = format!("bitmap{number}");
                    let mut line: Vec<&str> = line.iter().map(String::as_str).collect();
                    line.push(name);
                    line.extend((line[0] == "bitmap").then_some(bitmap.as_str()));
                    self.run("qemu-img", &line);
                }
            }
        }
        fs::remove_file(&raw).unwrap();
        path
    }

    fn io(&self, commands: &[String], name: &str, killed: bool) {
        let mut line = vec!["-f", "qcow2", "-d", "unmap"];
        for command in commands {
            line.extend(["-c", command]);
        }
        if killed {
            line.extend(["-c", "sigraise 9", name]);
            let output = Command::new("qemu-io").args(&line).output().unwrap();
            assert_eq!(output.status.code(), None, "{self:?}: {output:?}");
        } else {
            line.push(name);
            self.run("qemu-io", &line);
        }
    }

    fn run(&self, program: &str, line: &[&str]) {
        let output = Command::new(program).args(line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // qemu-io complains on its output and ends well.
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && !told.contains("failed:"),
            "{self:?}\n{program} {line:?}: {said}{told}"
        );
    }
}

fn image(words: &[&str]) -> Round {
    Round::Img(words.iter().map(|word| (*word).to_owned()).collect())
}
