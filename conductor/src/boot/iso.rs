//! The disc image for virtual media: the ramdisk as El Torito boot image, and
//! small files that are this node's own. It is laid out anew for each
//! request and never stored.

use std::path::PathBuf;

use axum::body::Bytes;
use wrought_formats::iso9660::Builder;
use wrought_formats::iso9660::Content;
use wrought_store::node::Node;

use crate::boot::file;
use crate::boot::file::Part;
use crate::boot::params;
use crate::error::Error;
use crate::internal;
use crate::service::Service;

/// Volume identifier.
const VOLUME: &str = "WROUGHT_VMEDIA";

/// The boot image.
pub(crate) fn esp(svc: &Service, node: &Node) -> PathBuf {
    crate::boot::folder(svc, node).join("esp.img")
}

/// The parts of the node's disc image, in order.
pub(crate) async fn parts(svc: &Service, node: &Node) -> Result<Vec<Part>, Error> {
    let path = esp(svc, node);
    let failed = |action, source: crate::error::Source| Error::BootFile {
        path: path.display().to_string(),
        action,
        source,
    };
    let boot = file::whole(&path)
        .await
        .map_err(|source| failed("open it", source.into()))?;
    let Part::File { len: boot_len, .. } = &boot else {
        return Ok(Vec::new());
    };
    let token = internal::text(node, internal::AGENT_TOKEN).unwrap_or_default();
    let mut files = vec![
        ("CA.PEM", Bytes::from(svc.ca.ca_pem.clone())),
        ("PARAMS.TXT", Bytes::from(params::file(svc, node, token))),
    ];
    if !node.network_data.is_empty() {
        // The ramdisk sets its network up by it, and asks no DHCP server.
        let text = serde_json::Value::Object(node.network_data.clone()).to_string();
        files.push(("NETDATA.JSN", Bytes::from(text)));
    }
    let mut builder = Builder::new(VOLUME).boot_image(*boot_len);
    for (name, content) in &files {
        builder = builder.file(name, content.len() as u64);
    }
    let layout = builder
        .layout()
        .map_err(|source| failed("lay out an ISO", source.into()))?;
    let parts = layout.pieces().iter().map(|piece| {
        let zeroes = usize::try_from(piece.len).unwrap_or_default();
        match piece.content {
            Content::Metadata => Part::Memory(Bytes::copy_from_slice(layout.metadata())),
            Content::File(index) => Part::Memory(
                files
                    .get(index)
                    .map(|(_, bytes)| bytes.clone())
                    .unwrap_or_default(),
            ),
            Content::BootImage => boot.clone(),
            // A node's disc has none: Ironic's virtual media are for UEFI.
            Content::BiosImage => Part::Memory(Bytes::new()),
            // Never more than one sector.
            Content::Padding => Part::Memory(vec![0; zeroes].into()),
        }
    });
    Ok(parts.collect())
}
