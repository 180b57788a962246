//! The logs of ramdisks: when they are kept, and that nothing fails by them.

use std::path::PathBuf;

use wrought_wire::state::ProvisionState as S;
use wrought_wire::state::Verb;

use super::rig::Rig;
use crate::config::CollectLogs;

const LOGS: [u8; 6] = [0x1f, 0x8b, 8, 0, 1, 2];

async fn rig(collect: CollectLogs, logs: &[u8]) -> Rig {
    let set = |config: &mut crate::Config| config.agent.deploy_logs_collect = collect;
    let rig = Rig::with("redfish", set, |_| {}).await;
    rig.machine.knobs(|knobs| knobs.logs = Some(logs.to_vec()));
    rig
}

fn kept(rig: &Rig) -> Vec<PathBuf> {
    let folder = rig.config.state_dir.join("logs").join(rig.node.to_string());
    let Ok(files) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

async fn fails_cleaning(rig: &Rig) -> String {
    rig.machine.knobs(|knobs| {
        knobs
            .failing
            .insert("deploy.erase_devices".to_owned(), "sda: EIO".to_owned())
    });
    rig.ask(Verb::Manage).await;
    rig.reaches(S::Manageable).await;
    rig.ask(Verb::Provide).await;
    rig.reaches(S::CleanFail).await.last_error.unwrap()
}

#[tokio::test]
async fn logs_are_kept_when_a_step_has_failed_and_last_error_names_them() {
    use std::os::unix::fs::PermissionsExt;
    let rig = rig(CollectLogs::OnFailure, &LOGS).await;
    let error = fails_cleaning(&rig).await;
    let files = kept(&rig);
    assert_eq!(files.len(), 1);
    let name = files[0].file_name().unwrap().to_str().unwrap();
    assert!(name.ends_with("-clean-failed.tar.gz"), "{name}");
    let told = format!("sda: EIO (the ramdisk's logs: {}/{name})", rig.node);
    assert!(error.ends_with(&told), "{error}");
    assert_eq!(std::fs::read(&files[0]).unwrap(), LOGS);
    let mode = std::fs::metadata(&files[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told = rig.told().await;
    assert!(told.iter().any(|event| event.contains(name)), "{told:#?}");
}

#[tokio::test]
async fn logs_that_cannot_be_kept_change_nothing() {
    for (collect, logs) in [
        (CollectLogs::OnFailure, &b"no gzip"[..]),
        (CollectLogs::Never, &LOGS[..]),
    ] {
        let rig = rig(collect, logs).await;
        let error = fails_cleaning(&rig).await;
        assert!(error.ends_with("sda: EIO"), "{error}");
        assert!(kept(&rig).is_empty());
    }
}

#[tokio::test]
async fn logs_are_always_kept_where_that_is_set() {
    let rig = rig(CollectLogs::Always, &LOGS).await;
    rig.make_available().await;
    assert_eq!(kept(&rig).len(), 1);
    rig.deploy().await;
    let files = kept(&rig);
    assert_eq!(files.len(), 2);
    let name = files[1].display().to_string();
    assert!(name.ends_with("-deploy-done.tar.gz"), "{name}");
    // Five of a node by default.
    for _ in 0..5 {
        rig.ask(Verb::Deleted).await;
        rig.reaches(S::Available).await;
        rig.deploy().await;
    }
    assert_eq!(kept(&rig).len(), 5);
}

#[tokio::test]
async fn logs_beyond_the_bound_are_not_kept() {
    let small = |config: &mut crate::Config| config.agent.deploy_logs_max_bytes = 5;
    let rig = Rig::with("redfish", small, |_| {}).await;
    rig.machine.knobs(|knobs| knobs.logs = Some(LOGS.to_vec()));
    let error = fails_cleaning(&rig).await;
    assert!(error.ends_with("sda: EIO"), "{error}");
    assert!(kept(&rig).is_empty());
}
