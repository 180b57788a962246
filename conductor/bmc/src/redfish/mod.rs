//! A thin Redfish client (DMTF DSP0266): power, boot override and mode,
//! virtual media, indicators, BIOS settings, firmware versions,
//! event subscriptions.
//!
//! Every action is an absolute target that is read before it is sent and read
//! back afterwards; nothing here is ever a blind toggle.

mod boot;
mod cache;
mod client;
mod endpoint;
mod error;
mod http;
mod json;
mod light;
mod media;
mod nics;
mod power;
mod session;
mod settings;
mod subscription;
mod system;

pub use boot::BootOverride;
pub use boot::Enabled;
pub use cache::Clients;
pub use client::Client;
pub use endpoint::AuthType;
pub use endpoint::Endpoint;
pub use endpoint::Tuning;
pub use endpoint::Verify;
pub use error::Error;
pub use light::Light;
pub use media::MediaSlot;
pub use nics::Nic;
pub use power::PowerAction;
pub use settings::Attribute;
pub use settings::Firmware;
pub use system::System;
pub use wrought_wire::state::BootMode;

/// Outcome of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
