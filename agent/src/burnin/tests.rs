//! Burn-ins against a double of the tools.

use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::BurnInError;
use super::Test;
use super::smart::Verdict;
use super::smart::verdict;
use crate::command::CancelToken;
use crate::command::ProgressSink;
use crate::disk::Disk;
use crate::disk::DiskRules;
use crate::tools::double::Double;
use crate::tools::double::failure;

fn disk(name: &str) -> Disk {
    Disk {
        name: name.to_owned(),
        path: format!("/dev/{name}").into(),
        size: 1 << 34,
        ..Disk::default()
    }
}

fn run(tools: &Double, test: Test, info: Value, disks: &[Disk]) -> Result<String, BurnInError> {
    let properties = json!({"skip_block_devices": [{"name": "/dev/sdb"}]});
    let properties = properties.as_object().unwrap();
    let rules = DiskRules::of_node(properties, &serde_json::Map::new()).unwrap();
    let bench = Bench {
        info: info.as_object().unwrap(),
        disks,
        rules: &rules,
        tools,
        progress: &ProgressSink::default(),
        cancel: &CancelToken::default(),
    };
    bench.run(test)
}

#[test]
fn processors_and_memory_have_ironics_settings() {
    let tools = Double::default();
    run(&tools, Test::Cpu, json!({}), &[]).unwrap();
    let info = json!({"agent_burnin_cpu_timeout": "600", "agent_burnin_cpu_cpu": 2,
        "agent_burnin_cpu_outputfile": "/run/cpu.log"});
    let story = run(&tools, Test::Cpu, info, &[]).unwrap();
    assert_eq!(story, "processors under load for 600 s: no fault");
    run(&tools, Test::Memory, json!({}), &[]).unwrap();
    let info = json!({"agent_burnin_vm_timeout": 3600, "agent_burnin_vm_vm-bytes": "30%"});
    run(&tools, Test::Memory, info, &[]).unwrap();
    assert_eq!(
        tools.calls(),
        [
            "stress-ng --cpu 0 --timeout 86400 --metrics-brief",
            "stress-ng --cpu 2 --timeout 600 --metrics-brief --log-file /run/cpu.log",
            "stress-ng --vm 0 --vm-bytes 98% --verify --timeout 86400 --metrics-brief",
            "stress-ng --vm 0 --vm-bytes 30% --verify --timeout 3600 --metrics-brief",
        ]
    );
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (test, info, says) in [
        (
            Test::Cpu,
            json!({"agent_burnin_cpu_timeout": "soon"}),
            "driver_info.agent_burnin_cpu_timeout: expected a whole number from 0 on, found \
             \"soon\"",
        ),
        (
            Test::Cpu,
            json!({"agent_burnin_cpu_timeout": 0}),
            "driver_info.agent_burnin_cpu_timeout: expected seconds, at most a week (604800), \
             found 0",
        ),
        (
            Test::Memory,
            json!({"agent_burnin_vm_vm-bytes": "--vm-keep"}),
            "driver_info.agent_burnin_vm_vm-bytes: expected a text of letters, digits, %, ., /, \
             _ and -, found \"--vm-keep\"",
        ),
        (
            Test::Network,
            json!({}),
            "driver_info.agent_burnin_fio_network_config: expected an object with role (writer \
             or reader) and partner (the other machine's address), found null",
        ),
        (
            Test::Network,
            json!({"agent_burnin_fio_network_config": {"role": "both", "partner": "x"}}),
            "driver_info.agent_burnin_fio_network_config: expected an object with role (writer \
             or reader) and partner (the other machine's address), found \
             {\"partner\":\"x\",\"role\":\"both\"}",
        ),
    ] {
        let tools = Double::default();
        let error = run(&tools, test, info, &[]).unwrap_err().to_string();
        assert_eq!(error, says);
        assert!(tools.calls().is_empty());
    }
}

#[test]
fn disks_that_must_be_left_alone_are() {
    let tools = Double::default();
    let mut disks = [disk("sda"), disk("sdb"), disk("sdc"), disk("sdd")];
    disks[2].in_use = Some("mounted at /".to_owned());
    disks[3].read_only = true;
    let info = json!({"agent_burnin_fio_disk_loops": 2, "agent_burnin_fio_disk_runtime": 60});
    let story = run(&tools, Test::Disk, info, &disks).unwrap();
    assert_eq!(story, "disks sda: no fault");
    assert_eq!(
        tools.calls(),
        [
            "fio --rw=readwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=32 --verify=crc32c \
          --continue_on_error=verify --loops=2 --runtime=60 --time_based --name=sda \
          --filename=/dev/sda"
        ]
    );
    let error = run(&tools, Test::Disk, json!({}), &disks[1..]).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("none that may be overwritten"), "{error}");
    assert!(error.contains("/dev/sdc"), "{error}");
}

#[test]
fn a_self_test_follows_when_it_is_asked_for() {
    let passed = r#"{"ata_smart_data": {"self_test": {"status": {"passed": true}}}}"#;
    let failed = r#"{"ata_smart_data": {"self_test": {"status": {"passed": false,
        "string": "completed: read failure"}}}}"#;
    let running = r#"{"ata_smart_data": {"self_test": {"status": {"remaining_percent": 90}}}}"#;
    assert_eq!(verdict(running), Verdict::Running);
    let tools = Double::default()
        .answer("smartctl -c -j /dev/sda", move |_| Ok(passed.to_owned()))
        .answer("smartctl -c -j /dev/sdc", move |_| Ok(failed.to_owned()));
    let info = json!({"agent_burnin_fio_disk_smart_test": "True"});
    let error = run(&tools, Test::Disk, info, &[disk("sda"), disk("sdc")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "burn-in of the disks: /dev/sdc: its SMART self-test ended with completed: read failure"
    );
    assert_eq!(tools.calls()[1], "smartctl -t long /dev/sda");
}

#[test]
fn the_network_is_loaded_both_ways() {
    let tools = Double::default();
    let info = json!({"agent_burnin_fio_network_runtime": 5,
        "agent_burnin_fio_network_config": "{\"role\": \"reader\", \"partner\": \"host-2\"}"});
    run(&tools, Test::Network, info, &[]).unwrap();
    let common = "fio --ioengine=net --port=9000 --fill_device=1 --group_reporting \
                  --gtod_reduce=1 --numjobs=16";
    assert_eq!(
        tools.calls(),
        [
            format!("{common} --name=reader --rw=read --hostname=host-2"),
            format!("{common} --name=writer --rw=write --runtime=5 --time_based --listen"),
        ]
    );
}

#[test]
fn a_missing_tool_and_a_fault_are_told() {
    let tools = Double::default().without("stress-ng");
    let error = run(&tools, Test::Cpu, json!({}), &[]).unwrap_err();
    let error = crate::command::CommandFailure::chain(&error);
    assert!(
        error.starts_with("burn-in of the processors: stress-ng is not in this ramdisk"),
        "{error}"
    );
    let tools = Double::default().answer("fio", |line| Err(failure(line, 1, "verify: bad magic")));
    let error = run(&tools, Test::Disk, json!({}), &[disk("sda")]).unwrap_err();
    let error = crate::command::CommandFailure::chain(&error);
    assert!(
        error.ends_with("exit status: 1; it says: verify: bad magic"),
        "{error}"
    );
}
