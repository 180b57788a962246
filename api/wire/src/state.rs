//! Provision and power states with their strings on the wire
//! (Ironic, `ironic.common.states`).

use std::fmt;
use std::str::FromStr;

/// A string that names no member of one of the closed sets below.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {found:?}")]
pub struct Unknown {
    /// What was expected, such as "provision state".
    pub what: &'static str,
    /// What was found.
    pub found: String,
}

/// Defines an enum whose members have one string each on the wire.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every member, in the order of the definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The string on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Unknown;
            fn from_str(text: &str) -> Result<Self, Unknown> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(Unknown { what: $what, found: text.to_owned() }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

wire_enum! {
    /// Where a node is in its life (`provision_state`).
    ProvisionState, "provision state" {
        /// Known by name, its BMC not yet checked.
        Enroll = "enroll",
        /// The BMC is being checked.
        Verifying = "verifying",
        /// Under management, not offered to users.
        Manageable = "manageable",
        /// Clean and ready to be deployed.
        Available = "available",
        /// An instance runs on it.
        Active = "active",
        /// Deploy: the ramdisk works, the conductor waits for it.
        DeployWait = "wait call-back",
        /// Deploy: the conductor works.
        Deploying = "deploying",
        /// Deploy ended with an error.
        DeployFail = "deploy failed",
        /// Deploy stopped at a hold step.
        DeployHold = "deploy hold",
        /// The instance is being torn down.
        Deleting = "deleting",
        /// Clean: the conductor works.
        Cleaning = "cleaning",
        /// Clean: the ramdisk works.
        CleanWait = "clean wait",
        /// Clean ended with an error.
        CleanFail = "clean failed",
        /// Clean stopped at a hold step.
        CleanHold = "clean hold",
        /// Tear-down ended with an error.
        Error = "error",
        /// Inspection: the conductor works.
        Inspecting = "inspecting",
        /// Inspection: the ramdisk works.
        InspectWait = "inspect wait",
        /// Inspection ended with an error.
        InspectFail = "inspect failed",
        /// An instance that exists already is being taken over.
        Adopting = "adopting",
        /// Adoption ended with an error.
        AdoptFail = "adopt failed",
        /// The rescue ramdisk runs for an operator.
        Rescue = "rescue",
        /// Rescue: the conductor works.
        Rescuing = "rescuing",
        /// Rescue: the ramdisk boots.
        RescueWait = "rescue wait",
        /// Rescue ended with an error.
        RescueFail = "rescue failed",
        /// The instance is being brought back after a rescue.
        Unrescuing = "unrescuing",
        /// Unrescue ended with an error.
        UnrescueFail = "unrescue failed",
        /// Service steps: the conductor works.
        Servicing = "servicing",
        /// Service steps: the ramdisk works.
        ServiceWait = "service wait",
        /// Service ended with an error.
        ServiceFail = "service failed",
        /// Service stopped at a hold step.
        ServiceHold = "service hold",
    }
}

impl ProvisionState {
    /// Whether only a request moves a node from here.
    pub const fn is_stable(self) -> bool {
        matches!(
            self,
            Self::Enroll
                | Self::Manageable
                | Self::Available
                | Self::Active
                | Self::Error
                | Self::Rescue
        )
    }

    /// Whether the ramdisk may look itself up here (`[api]restrict_lookup`).
    pub const fn allows_lookup(self) -> bool {
        matches!(
            self,
            Self::Deploying
                | Self::DeployWait
                | Self::Cleaning
                | Self::CleanWait
                | Self::Inspecting
                | Self::InspectWait
                | Self::Rescuing
                | Self::RescueWait
                | Self::ServiceWait
        )
    }

    /// Whether the ramdisk of a node on the fast track may look itself up
    /// here.
    pub const fn allows_lookup_fast_track(self) -> bool {
        self.allows_lookup()
            || matches!(
                self,
                Self::Enroll
                    | Self::Manageable
                    | Self::Available
                    | Self::Servicing
                    | Self::ServiceHold
            )
    }

    /// Whether a node may be changed here although it is on its way to another
    /// state.
    pub const fn allows_update(self) -> bool {
        matches!(
            self,
            Self::DeployFail
                | Self::Inspecting
                | Self::InspectFail
                | Self::InspectWait
                | Self::CleanFail
                | Self::Error
                | Self::Verifying
                | Self::AdoptFail
                | Self::RescueFail
                | Self::UnrescueFail
                | Self::ServiceHold
                | Self::ServiceFail
        )
    }

    /// Whether an operation ended here with an error.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::DeployFail
                | Self::CleanFail
                | Self::InspectFail
                | Self::RescueFail
                | Self::UnrescueFail
                | Self::AdoptFail
                | Self::ServiceFail
                | Self::Error
        )
    }
}

wire_enum! {
    /// What the BMC says of the machine's power (`power_state`).
    PowerState, "power state" {
        /// Running.
        On = "power on",
        /// Off.
        Off = "power off",
        /// The BMC could not tell.
        Error = "error",
    }
}

wire_enum! {
    /// What `PUT …/states/power` may ask for.
    PowerTarget, "power target" {
        /// Switch on.
        On = "power on",
        /// Switch off at once.
        Off = "power off",
        /// Off, then on.
        Reboot = "rebooting",
        /// Ask the OS to shut down.
        SoftOff = "soft power off",
        /// Ask the OS to shut down, then switch on.
        SoftReboot = "soft rebooting",
    }
}

wire_enum! {
    /// What `PUT …/states/provision` may ask for (`target`).
    Verb, "provision verb" {
        /// Deploy an instance.
        Active = "active",
        /// The same as `active` (1.73).
        Deploy = "deploy",
        /// Deploy the same instance anew.
        Rebuild = "rebuild",
        /// Tear the instance down.
        Deleted = "deleted",
        /// The same as `deleted` (1.73).
        Undeploy = "undeploy",
        /// Take under management.
        Manage = "manage",
        /// Make available.
        Provide = "provide",
        /// Inspect the hardware.
        Inspect = "inspect",
        /// Stop what is going on.
        Abort = "abort",
        /// Run given clean steps.
        Clean = "clean",
        /// Take over an instance that exists already.
        Adopt = "adopt",
        /// Boot the rescue ramdisk.
        Rescue = "rescue",
        /// Leave rescue.
        Unrescue = "unrescue",
        /// Go on after a hold step.
        Unhold = "unhold",
        /// Run given service steps.
        Service = "service",
    }
}

wire_enum! {
    /// How far an allocation is (`state`).
    AllocationState, "allocation state" {
        /// A node is being looked for.
        Allocating = "allocating",
        /// It has a node.
        Active = "active",
        /// No node could be had; `last_error` says why.
        Error = "error",
    }
}

wire_enum! {
    /// Boot devices of `…/management/boot_device`.
    BootDevice, "boot device" {
        /// Network boot by PXE or iPXE.
        Pxe = "pxe",
        /// The hard disk.
        Disk = "disk",
        /// A CD, also one of virtual media.
        Cdrom = "cdrom",
        /// Firmware set-up.
        Bios = "bios",
        /// The hard disk in safe mode.
        Safe = "safe",
        /// WAN boot.
        Wanboot = "wanboot",
        /// iSCSI boot.
        Iscsiboot = "iscsiboot",
        /// A floppy, also one of virtual media.
        Floppy = "floppy",
        /// UEFI HTTP boot.
        UefiHttp = "uefihttp",
    }
}

wire_enum! {
    /// How the firmware starts the machine (`…/states/boot_mode`).
    BootMode, "boot mode" {
        /// As a BIOS does.
        Bios = "bios",
        /// By UEFI.
        Uefi = "uefi",
    }
}

wire_enum! {
    /// State of an indicator of `…/management/indicators`.
    IndicatorState, "indicator state" {
        /// Lit.
        On = "on",
        /// Dark.
        Off = "off",
        /// Lit and dark in turn.
        Blinking = "blinking",
        /// The BMC could not tell.
        Unknown = "unknown",
    }
}

wire_enum! {
    /// What an image appears as to the machine (`…/vmedia`).
    MediaKind, "device type" {
        /// A hard disk or USB stick.
        Disk = "disk",
        /// A CD or DVD.
        Cdrom = "cdrom",
        /// A floppy.
        Floppy = "floppy",
    }
}

#[cfg(test)]
mod tests {
    use super::ProvisionState;

    #[test]
    fn strings_round_trip() {
        for state in ProvisionState::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        let unknown = "deployed".parse::<ProvisionState>().unwrap_err();
        assert_eq!(unknown.to_string(), "unknown provision state \"deployed\"");
    }
}
