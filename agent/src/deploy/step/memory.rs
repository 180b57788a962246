//! The steps about what the firmware remembers: `erase_pstore` and
//! `clean_uefi_nvram`.

use std::path::Path;

use serde_json::Value;

use crate::command::CommandFailure;
use crate::command::Context;
use crate::deploy::bootloader;
use crate::deploy::failure;
use crate::firmware::FirmwareError;
use crate::firmware::nvram;
use crate::firmware::pstore;

/// Deletes the kernel's crash records.
pub(super) fn erase_pstore(context: &Context) -> Result<String, CommandFailure> {
    let failed = |error| failure::firmware(&error);
    if !context.agent.is_init {
        return Err(failed(FirmwareError::NotOurs {
            step: "erase_pstore",
        }));
    }
    if !pstore::mount_records().map_err(failed)? {
        return Ok("this kernel keeps no crash records".to_owned());
    }
    pstore::erase(Path::new(pstore::FOLDER)).map_err(failed)
}

/// Removes boot entries by the patterns in the step's arguments.
pub(super) fn clean_nvram(context: &Context, step: &Value) -> Result<String, CommandFailure> {
    let failed = |error| failure::firmware(&error);
    let patterns = nvram::patterns(step.pointer("/args/match_patterns")).map_err(failed)?;
    if context.agent.is_init && !nvram::is_uefi() {
        return Ok("this machine was not started by UEFI: it has no boot entries".to_owned());
    }
    let vars = bootloader::variables(context)?.ok_or_else(|| {
        failed(FirmwareError::NotOurs {
            step: "clean_uefi_nvram",
        })
    })?;
    nvram::clean(&vars, &patterns).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::clean_nvram;
    use super::erase_pstore;
    use crate::boot::efivars::EfiVars;
    use crate::boot::load_option::LoadOption;
    use crate::command::Agent;
    use crate::command::Context;
    use crate::params::Params;
    use crate::params::Words;

    #[test]
    fn the_memory_of_a_machine_that_is_not_ours_stays() {
        let context = Context::new(Arc::new(Agent::for_tests()));
        for refused in [
            erase_pstore(&context).unwrap_err(),
            clean_nvram(&context, &json!({"step": "clean_uefi_nvram"})).unwrap_err(),
        ] {
            let text = refused.error.details.clone();
            assert!(text.contains("not PID 1 of the machine"), "{text}");
        }
    }

    #[test]
    fn the_steps_arguments_are_the_patterns() {
        let folder = tempfile::tempdir().unwrap();
        let line = format!(
            "ipa-api-url=https://192.0.2.1:6385 wrought-efivars={}",
            folder.path().display()
        );
        let agent = Agent {
            params: Params::from_words(Words::from_cmdline(&line)).unwrap(),
            ..Agent::for_tests()
        };
        let context = Context::new(Arc::new(agent));
        let vars = EfiVars::new(folder.path());
        for (number, file) in [(1, b'a'), (2, b'b')] {
            // A file's path and the end of the whole.
            let path = vec![4, 4, 8, 0, file, 0, 0, 0, 0x7f, 0xff, 4, 0];
            let option = LoadOption::new("x", path).encode();
            vars.write(&format!("Boot{number:04X}"), &option).unwrap();
        }
        let step = json!({"args": {"match_patterns": ["^file\\(b\\)"]}});
        let said = clean_nvram(&context, &step).unwrap();
        assert_eq!(said, "1 of 2 boot entries removed: Boot0002 \"x\" File(b)");
        let step = json!({"args": {"match_patterns": "b"}});
        let refused = clean_nvram(&context, &step).unwrap_err();
        assert_eq!(refused.error.kind, "InvalidCommandParamsError");
    }
}
