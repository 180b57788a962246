//! PID 1 of the ramdisk.
//!
//! The process with number 1 only sets the stage and stays: it mounts the
//! kernel's filesystems, starts the agent as a child of its own, loads
//! modules for all hardware that shows up, and collects the dead. The agent's
//! trouble is therefore never PID 1's: whatever the child does, the kernel
//! does not panic, and a child that ends without being told to is followed by
//! a restart of the machine.

pub mod banner;
mod console;
mod login;
pub mod modules;
mod mounts;
mod power;
mod supervise;
mod uevent;

pub use power::end;
pub use supervise::is_child_of_init;
pub use supervise::run;

/// How the kernel calls for a module by name: `modprobe -q -- NAME`.
/// [`mounts`] makes this program that helper.
pub fn modprobe_arguments(arguments: &[String]) -> Option<&[String]> {
    match arguments {
        [quiet, dashes, names @ ..] if quiet == "-q" && dashes == "--" && !names.is_empty() => {
            Some(names)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::modprobe_arguments;

    #[test]
    fn knows_the_kernels_call() {
        let arguments = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let call = arguments("-q -- fs-efivarfs");
        assert_eq!(modprobe_arguments(&call), Some(&call[2..]));
        assert_eq!(modprobe_arguments(&arguments("-q --")), None);
        assert_eq!(modprobe_arguments(&arguments("run")), None);
    }
}
