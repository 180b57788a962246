//! What `--json` prints.

use serde_json::Value;
use serde_json::json;
use wrought_formats::detect::Format;

use crate::error::DiskState;
use crate::error::Error;
use crate::inspect::ImageFacts;
use crate::progress::Progress;
use crate::report::TableReport;
use crate::report::WriteReport;

pub(super) fn progress(progress: &Progress) -> Value {
    json!({
        "stage": progress.stage.name(),
        "bytes_in": progress.bytes_in,
        "bytes_total": progress.bytes_total,
        "bytes_out": progress.bytes_out,
        "rate": progress.rate,
        "percent": progress.percent,
        "eta": progress.eta,
    })
}

pub(super) fn error(error: &Error) -> Value {
    json!({
        "result": "error",
        "kind": error.kind().name(),
        "stage": error.stage().name(),
        "offset": error.offset(),
        "retryable": error.is_retryable(),
        "disk": match error.disk() {
            DiskState::Untouched => "untouched",
            DiskState::EndsZeroed => "ends_zeroed",
            DiskState::Unknown => "unknown",
        },
        "error": error.chain(),
    })
}

pub(super) fn report(report: &WriteReport, peak_rss_bytes: u64) -> Value {
    json!({
        "result": "written",
        "format": report.format.name(),
        "container": report.container.map(Format::name),
        "source": report.source,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "bytes_zeroed": report.bytes_zeroed,
        "bytes_refetched": report.bytes_refetched,
        "algorithm": report.algorithm.name(),
        "digest": report.digest,
        "checksum_source": report.checksum_source,
        "read_back": report.read_back,
        "disk_bytes": report.disk_bytes,
        "sector_size": report.sector_size,
        "table": table(&report.table),
        "filesystem": report.filesystem,
        "seconds": report.elapsed.as_secs_f64(),
        "connections": report.connections,
        "peak_rss_bytes": peak_rss_bytes,
    })
}

pub(super) fn facts(facts: &ImageFacts) -> Value {
    json!({
        "result": if facts.refusal.is_none() { "writable" } else { "refused" },
        "source": facts.source,
        "container": facts.container.map(|format| format.name()),
        "format": facts.format.map(|format| format.name()),
        "bytes": facts.bytes,
        "virtual_size": facts.virtual_size,
        "qcow2": facts.qcow2.map(|qcow2| json!({
            "version": qcow2.version,
            "cluster_size": qcow2.cluster_size,
            "compression": qcow2.compression,
            "extended_l2": qcow2.extended_l2,
            "snapshots": qcow2.snapshots,
            "all_tables_checked": qcow2.all_tables_checked,
        })),
        "table": facts.table.as_ref().map(table),
        "kind": facts.refusal.as_ref().map(|error| error.kind().name()),
        "reason": facts.refusal.as_ref().map(Error::chain),
    })
}

fn table(table: &TableReport) -> Value {
    let partitions: Vec<Value> = table
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "number": partition.number,
                "start": partition.start,
                "size": partition.size,
                "type": partition.type_id,
                "partuuid": partition.partuuid,
                "name": partition.name,
                "esp": partition.is_esp,
            })
        })
        .collect();
    json!({
        "kind": table.kind.name(),
        "disk_id": table.disk_id,
        "partitions": partitions,
        "backup_moved": table.backup_moved,
    })
}
