//! What the ramdisk is told, on its kernel command line or in a file of its
//! disc image.

use wrought_store::node::Node;
use wrought_wire::state::ProvisionState;

use crate::service::Service;

/// Console arguments of the kernel.
const CONSOLE: &str = "console=tty0 console=ttyS0,115200";

/// Parameters that are the same for each way of booting.
pub(crate) fn common(svc: &Service, node: &Node) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut push = |key: &str, value: String| pairs.push((key.to_owned(), value));
    if let Some(url) = &svc.config.public_endpoint {
        push("ipa-api-url", url.clone());
        if url.starts_with("https:") {
            push("wrought-ca-sha256", svc.ca.ca_sha256_hex.clone());
        }
        let inspects = matches!(
            node.provision_state,
            ProvisionState::Inspecting | ProvisionState::InspectWait
        );
        if inspects {
            let to = format!("{}/v1/continue_inspection", url.trim_end_matches('/'));
            push("ipa-inspection-callback-url", to);
            let extra = svc.config.conductor.inspection.extra_kernel_params.as_str();
            for (key, value) in extra
                .split_whitespace()
                .filter_map(|word| word.split_once('='))
            {
                push(key, value.to_owned());
            }
        }
    }
    if svc.config.agent.heartbeat_interval > 0 {
        push(
            "ipa-heartbeat-interval",
            svc.config.agent.heartbeat_interval.to_string(),
        );
    }
    pairs
}

/// The kernel command line for a machine that boots from the NIC `mac`
/// (hyphens).
pub(crate) fn command_line(svc: &Service, node: &Node, mac: &str) -> String {
    let mut words = vec![CONSOLE.to_owned()];
    words.extend(
        common(svc, node)
            .into_iter()
            .map(|(key, value)| format!("{key}={value}")),
    );
    words.push(format!("BOOTIF=01-{mac}"));
    let extra = svc.config.boot.extra_kernel_params.trim();
    if !extra.is_empty() {
        words.push(extra.to_owned());
    }
    words.join(" ")
}

/// `PARAMS.TXT` of a disc image: one `key=value` per line.
pub(crate) fn file(svc: &Service, node: &Node, token: &str) -> String {
    let mut pairs = common(svc, node);
    pairs.push(("ipa-agent-token".to_owned(), token.to_owned()));
    let extra = svc.config.boot.extra_kernel_params.split_whitespace();
    let extra = extra.filter_map(|word| word.split_once('='));
    pairs.extend(extra.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let lines: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    lines.concat()
}
