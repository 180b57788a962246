//! Inventories of machines that are folders.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::Roots;
use super::cpu;
use super::dmi;
use super::memory;
use super::smbios::tests::structure;

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn a_machine_with_two_sockets() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let roots = Roots {
        sys: &root.join("sys"),
        proc: &root.join("proc"),
    };
    let processor = "model name\t: Xeon  Gold\nflags\t\t: fpu sse2\n\n";
    let info: String = (0..4)
        .map(|n| format!("processor\t: {n}\n{processor}"))
        .collect();
    put(root, "proc/cpuinfo", info.as_bytes());
    put(
        root,
        "proc/meminfo",
        b"MemTotal:       32654632 kB\nMemFree: 1 kB\n",
    );
    for (cpu, package) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        put(root, &path, package.to_string().as_bytes());
    }
    let frequency = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";
    put(root, frequency, b"3500500\n");
    let mut device = vec![0; 0x1E];
    device[8..10].copy_from_slice(&16_384u16.to_le_bytes());
    let table = structure(17, 1, &device, &[]).repeat(2);
    put(root, "sys/firmware/dmi/tables/DMI", &table);
    put(root, "sys/class/dmi/id/sys_vendor", b"Maker\n");
    put(root, "sys/class/dmi/id/bios_version", b"1.2 \n");

    let found = cpu::read(roots);
    assert_eq!(found["model_name"], "Xeon  Gold");
    assert_eq!(found["frequency"], "3500.5000");
    assert_eq!(
        (&found["count"], &found["socket_count"]),
        (&json!(4), &json!(2))
    );
    assert_eq!(found["flags"], json!(["fpu", "sse2"]));
    let found = memory::read(roots);
    assert_eq!(
        found,
        json!({"total": 32_654_632u64 * 1024, "physical_mb": 32_768})
    );
    let found = dmi::vendor(roots);
    assert_eq!(found["manufacturer"], "Maker");
    assert_eq!(found["firmware"]["version"], "1.2");
    assert_eq!(found["product_name"], "");
}

#[test]
fn a_machine_that_tells_nothing() {
    let root = tempfile::tempdir().unwrap();
    let roots = Roots {
        sys: root.path(),
        proc: root.path(),
    };
    assert_eq!(
        memory::read(roots),
        json!({"total": null, "physical_mb": null})
    );
    let found = cpu::read(roots);
    assert_eq!(
        (&found["count"], &found["frequency"]),
        (&json!(0), &json!(""))
    );
}
