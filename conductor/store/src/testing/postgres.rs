//! All tests of this crate once more, on a PostgreSQL server of their own.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use uuid::Uuid;

use crate::Store;

/// The variable that tells a test where the server is: its socket's folder.
pub(crate) const SERVER: &str = "WROUGHT_STORE_TEST_POSTGRES";
/// The server's user, who may do everything there.
const USER: &str = "wrought";
/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);

/// A new database on the server.
pub(crate) async fn database(server: &str) -> Store {
    let name = format!("t{}", Uuid::new_v4().simple());
    let made = Command::new("createdb")
        .args(["-h", server, "-U", USER, &name])
        .status()
        .unwrap();
    assert!(made.success(), "createdb: {made}");
    Store::open(&format!("postgres://{USER}@localhost/{name}?host={server}"))
        .await
        .unwrap()
}

/// A server in a folder that goes with it.
struct Server {
    folder: PathBuf,
    process: Option<Child>,
}

impl Server {
    fn start(programs: &Path) -> Self {
        let folder =
            output(as_its_user(Path::new("mktemp")).args(["-d", "-t", "wrought-pg.XXXXXX"]));
        let mut server = Self {
            folder: PathBuf::from(folder.trim()),
            process: None,
        };
        let data = server.folder.join("data");
        let mut init = as_its_user(&programs.join("initdb"));
        init.args(["--no-sync", "-A", "trust", "-E", "UTF8", "-U", USER, "-D"]);
        output(init.arg(&data));
        let mut start = as_its_user(&programs.join("postgres"));
        start.arg("-D").arg(&data).arg("-k").arg(&server.folder);
        // Nothing here is to survive a power cut.
        for setting in ["listen_addresses=", "fsync=off", "max_connections=400"] {
            start.args(["-c", setting]);
        }
        let log = std::fs::File::create(server.folder.join("log")).unwrap();
        start.stderr(log.try_clone().unwrap()).stdout(log);
        server.process = Some(start.spawn().unwrap());
        server.wait();
        server
    }

    fn wait(&self) {
        let begin = Instant::now();
        let mut ask = Command::new("pg_isready");
        ask.arg("-q").arg("-h").arg(&self.folder);
        while !ask.status().unwrap().success() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(
                begin.elapsed() < START,
                "the server did not start: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // SIGQUIT: at once, the data go anyway.
            let id = process.id().to_string();
            Command::new("kill").args(["-QUIT", &id]).status().ok();
            process.wait().ok();
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A command as the user of the package: the server refuses to run as root.
fn as_its_user(program: &Path) -> Command {
    let root = output(Command::new("id").arg("-u")).trim() == "0";
    let mut command = if root {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            "postgres",
            "--regid",
            "postgres",
            "--clear-groups",
        ]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").process_group(0);
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The newest installed server's programs.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is not installed");
    let newest = versions.map(|version| version.unwrap().path()).max();
    newest.expect("PostgreSQL is not installed").join("bin")
}

#[test]
#[ignore = "needs PostgreSQL"]
fn all_tests_pass_on_postgresql_too() {
    let server = Server::start(&programs());
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--test-threads", "8"])
        .env(SERVER, &server.folder)
        .output()
        .unwrap();
    let (out, error) = (
        String::from_utf8_lossy(&again.stdout),
        String::from_utf8_lossy(&again.stderr),
    );
    assert!(again.status.success(), "{out}\n{error}");
}
