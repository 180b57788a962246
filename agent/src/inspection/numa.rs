//! Which memory, processors and NICs belong together (collector
//! `numa-topology`), in the shape of ironic-python-agent's.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use serde_json::json;

use crate::disk::sysfs;

/// The topology; none where the kernel tells of no NUMA nodes.
pub(super) fn topology(sys: &Path) -> Option<Value> {
    let folder = sys.join("devices/system/node");
    let mut nodes: Vec<u64> = sysfs::names(&folder)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    if nodes.is_empty() {
        return None;
    }
    let mut ram = Vec::new();
    // A core's number is its own within its node only.
    let mut cores: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for node in nodes {
        let folder = folder.join(format!("node{node}"));
        if let Some(kib) = memory_kib(&sysfs::listing(&folder.join("meminfo"))) {
            ram.push(json!({"numa_node": node, "size_kb": kib}));
        }
        for name in sysfs::names(&folder) {
            let thread = name.strip_prefix("cpu").and_then(|text| text.parse().ok());
            let core = sysfs::number(&folder.join(&name).join("topology/core_id"));
            if let (Some(thread), Some(core)) = (thread, core) {
                cores.entry((node, core)).or_default().push(thread);
            }
        }
    }
    let cpus = cores.into_iter().map(|((node, core), mut threads)| {
        threads.sort_unstable();
        json!({"cpu": core, "numa_node": node, "thread_siblings": threads})
    });
    Some(json!({
        "ram": ram,
        "cpus": cpus.collect::<Vec<_>>(),
        "nics": nics(sys),
    }))
}

/// `Node 0 MemTotal: 16315680 kB`
fn memory_kib(info: &str) -> Option<u64> {
    let line = info.lines().find(|line| line.contains("MemTotal:"))?;
    let (_, size) = line.split_once(':')?;
    size.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// NICs whose device has a node; -1 where the machine has but one.
fn nics(sys: &Path) -> Vec<Value> {
    let folder = sys.join("class/net");
    let node = |name: &str| -> Option<i64> {
        sysfs::text(&folder.join(name).join("device/numa_node"))?
            .parse()
            .ok()
    };
    sysfs::names(&folder)
        .into_iter()
        .filter_map(|name| Some(json!({"numa_node": node(&name)?, "name": name})))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::topology;

    #[test]
    fn two_nodes_with_threads_and_nics() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(topology(root.path()), None);
        for (node, threads) in [(0, [0, 10]), (1, [1, 2])] {
            let folder = format!("devices/system/node/node{node}");
            let info = format!(
                "Node {node} MemTotal:       {} kB\nNode {node} MemFree: 1 kB\n",
                1000 + node
            );
            put(&format!("{folder}/meminfo"), &info);
            for (core, thread) in threads.iter().enumerate() {
                // The threads of node 0 share a core.
                let core = if node == 0 { 0 } else { core };
                let path = format!("{folder}/cpu{thread}/topology/core_id");
                put(&path, &format!("{core}\n"));
            }
            put(&format!("{folder}/cpumap"), "3\n");
        }
        put("class/net/eth0/device/numa_node", "1\n");
        put("class/net/eth1/device/numa_node", "-1\n");
        put("class/net/lo/type", "772\n");
        let expected = json!({
            "ram": [{"numa_node": 0, "size_kb": 1000}, {"numa_node": 1, "size_kb": 1001}],
            "cpus": [
                {"cpu": 0, "numa_node": 0, "thread_siblings": [0, 10]},
                {"cpu": 0, "numa_node": 1, "thread_siblings": [1]},
                {"cpu": 1, "numa_node": 1, "thread_siblings": [2]},
            ],
            "nics": [{"name": "eth0", "numa_node": 1}, {"name": "eth1", "numa_node": -1}],
        });
        assert_eq!(topology(root.path()), Some(expected));
    }
}
