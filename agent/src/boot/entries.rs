//! The list of boot entries: which there are, in which order they are tried.

use crate::boot::efivars::EfiVars;
use crate::boot::efivars::Error;
use crate::boot::load_option::LoadOption;

/// Where a new entry goes in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Position {
    /// Tried first. What a deployed machine wants; to deploy it again the
    /// BMC's override comes before the order anyway.
    #[default]
    First,
    /// Tried after all others, for machines whose BMC has no override and
    /// which must reach the network first.
    Last,
}

/// One `Boot####` variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number in its name.
    pub number: u16,
    /// What it holds.
    pub option: LoadOption,
}

/// No number is left.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// A variable could not be read or written.
    #[error("boot entries")]
    Variable(#[from] Error),
    /// All numbers are taken.
    #[error("all 65536 boot entry numbers are taken; delete entries that are not needed")]
    Full,
}

/// Name of the variable of an entry.
pub fn variable(number: u16) -> String {
    format!("Boot{number:04X}")
}

/// All entries that can be read, by number. A malformed one belongs to
/// someone else and is left alone.
pub fn list(vars: &EfiVars) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for name in vars.names() {
        let Some(number) = number_of(&name) else {
            continue;
        };
        let option = vars
            .read(&name)?
            .and_then(|bytes| LoadOption::decode(&bytes).ok());
        entries.extend(option.map(|option| Entry { number, option }));
    }
    Ok(entries)
}

fn number_of(name: &str) -> Option<u16> {
    let digits = name
        .strip_prefix("Boot")
        .filter(|digits| digits.len() == 4)?;
    let upper = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    upper.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// `BootOrder`; empty when it is not set.
pub fn order(vars: &EfiVars) -> Result<Vec<u16>, Error> {
    let bytes = vars.read("BootOrder")?.unwrap_or_default();
    Ok(bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect())
}

/// `BootCurrent`: the entry that this run was started by.
pub fn current(vars: &EfiVars) -> Result<Option<u16>, Error> {
    let bytes = vars.read("BootCurrent")?;
    Ok(bytes.and_then(|bytes| Some(u16::from_le_bytes(*bytes.first_chunk()?))))
}

fn set_order(vars: &EfiVars, order: &[u16]) -> Result<(), Error> {
    let bytes: Vec<u8> = order
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    vars.write("BootOrder", &bytes)
}

/// Removes an entry, from `BootOrder` and `BootNext` as well. What else is in
/// the order stays as it is: numbers without an entry, and a byte too many.
pub fn remove(vars: &EfiVars, number: u16) -> Result<(), Error> {
    let gone = number.to_le_bytes();
    if let Some(bytes) = vars.read("BootOrder")? {
        let kept: Vec<u8> = bytes
            .chunks(2)
            .filter(|pair| **pair != gone)
            .flatten()
            .copied()
            .collect();
        if kept.is_empty() && !bytes.is_empty() {
            // A variable without a value is one that is deleted.
            vars.delete("BootOrder")?;
        } else if kept != bytes {
            vars.write("BootOrder", &kept)?;
        }
    }
    if vars.read("BootNext")?.is_some_and(|bytes| bytes == gone) {
        vars.delete("BootNext")?;
    }
    vars.delete(&variable(number))
}

/// Puts entries in, in their order, at one end of `BootOrder`. Entries that
/// have the same description are taken out first; the first of them gives
/// its number on. Returns the numbers.
pub fn install(
    vars: &EfiVars,
    options: &[LoadOption],
    position: Position,
) -> Result<Vec<u16>, EntryError> {
    let existing = list(vars)?;
    // Malformed entries keep their numbers too.
    let mut taken: Vec<u16> = vars
        .names()
        .iter()
        .filter_map(|name| number_of(name))
        .collect();
    let mut numbers = Vec::new();
    let mut gone = Vec::new();
    for option in options {
        let same: Vec<u16> = existing
            .iter()
            .filter(|entry| entry.option.description == option.description)
            .map(|entry| entry.number)
            .filter(|number| !numbers.contains(number) && !gone.contains(number))
            .collect();
        let number = match same.first() {
            Some(number) => *number,
            None => (0..=u16::MAX)
                .find(|number| !taken.contains(number))
                .ok_or(EntryError::Full)?,
        };
        for other in same.iter().skip(1) {
            vars.delete(&variable(*other))?;
            gone.push(*other);
        }
        let bytes = option.encode();
        if vars.read(&variable(number))?.as_deref() != Some(bytes.as_slice()) {
            vars.write(&variable(number), &bytes)?;
        }
        taken.push(number);
        numbers.push(number);
    }
    let mut order = order(vars)?;
    order.retain(|number| !numbers.contains(number) && !gone.contains(number));
    let at = match position {
        Position::First => 0,
        Position::Last => order.len(),
    };
    order.splice(at..at, numbers.iter().copied());
    set_order(vars, &order)?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::Position;
    use super::current;
    use super::install;
    use super::list;
    use super::order;
    use crate::boot::efivars::EfiVars;
    use crate::boot::load_option::LoadOption;

    fn option(name: &str, path: u8) -> LoadOption {
        LoadOption::new(name, vec![path])
    }

    #[test]
    fn a_new_entry_is_first_and_replaces_its_namesakes() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        for (number, name) in [(0, "UiApp"), (1, "debian"), (2, "PXE"), (7, "debian")] {
            vars.write(&format!("Boot{number:04X}"), &option(name, 9).encode())
                .unwrap();
        }
        vars.write("BootOrder", &[2, 0, 7, 0, 1, 0, 0, 0]).unwrap();
        vars.write("BootCurrent", &[2, 0]).unwrap();
        vars.write("Boot0003", b"junk").unwrap();

        assert_eq!(
            install(&vars, &[option("debian", 1)], Position::First).unwrap(),
            [1]
        );
        assert_eq!(order(&vars).unwrap(), [1, 2, 0]);
        assert_eq!(vars.read("Boot0007").unwrap(), None);
        assert_eq!(
            vars.read("Boot0003").unwrap().as_deref(),
            Some(&b"junk"[..])
        );

        let numbers = install(&vars, &[option("a", 1), option("b", 2)], Position::Last).unwrap();
        assert_eq!(numbers, [4, 5]);
        assert_eq!(order(&vars).unwrap(), [1, 2, 0, 4, 5]);
        assert_eq!(current(&vars).unwrap(), Some(2));
        let names: Vec<String> = list(&vars)
            .unwrap()
            .into_iter()
            .map(|entry| entry.option.description)
            .collect();
        assert_eq!(names, ["UiApp", "debian", "PXE", "a", "b"]);
    }

    #[test]
    fn an_empty_firmware() {
        let folder = tempfile::tempdir().unwrap();
        let vars = EfiVars::new(folder.path());
        assert_eq!(
            install(&vars, &[option("x", 1)], Position::First).unwrap(),
            [0]
        );
        assert_eq!(order(&vars).unwrap(), [0]);
        assert_eq!(current(&vars).unwrap(), None);
    }
}
