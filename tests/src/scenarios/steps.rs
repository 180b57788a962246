//! Operators' own steps through the unmodified `openstack baremetal`: a deploy
//! template by trait, a runbook, an executable plug-in, aborts and holds. Each
//! is judged by what the plug-in was given and by what became of the node.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use super::Context;
use crate::account::Account;
use crate::kill::site::Site;
use crate::paths::Paths;
use crate::peer::commands::Shell;
use crate::peer::commands::split;

/// For the node to come from one point to the next.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The node's name.
const NODE: &str = "polished";
/// The plug-in.
const PLUGIN: &[u8] = include_bytes!("../../steps/polisher");

/// A server with a plug-in, and the client.
struct Bench {
    site: Site,
    shell: Shell,
    plugins: PathBuf,
    account: Account,
}

/// All of it on one node without a machine.
pub(super) async fn operators_own(context: &mut Context) -> Result<()> {
    let paths = Paths::find()?;
    std::fs::create_dir_all(&paths.runs)?;
    let work = tempfile::Builder::new()
        .prefix("steps-")
        .tempdir_in(&paths.runs)?;
    let mut bench = Bench::start(&paths, work.path(), context.account.clone()).await?;
    bench.templates().await?;
    bench.runbooks().await?;
    bench.holds().await?;
    bench.aborts().await?;
    bench.killed().await?;
    bench.site.stop().await;
    Ok(())
}

impl Bench {
    /// Starts the server, and makes a node that is `available`.
    async fn start(paths: &Paths, work: &Path, account: Account) -> Result<Self> {
        let plugins = work.join("steps.d");
        std::fs::create_dir_all(&plugins)?;
        let mut site = Site::serve(&paths.binary("wrought")?, work)?;
        site.configure(&format!("step_plugins_dir = {plugins:?}\n"))?;
        site.start().await?;
        let server = [
            ("OS_AUTH_TYPE", "none".to_owned()),
            ("OS_ENDPOINT", site.url().to_owned()),
            ("OS_CACERT", site.ca().display().to_string()),
        ];
        let (shell, _) = Shell::start(paths, work, &server).await?;
        let mut bench = Self {
            site,
            shell,
            plugins,
            account,
        };
        bench
            .run(&format!(
                "node create --driver fake-hardware --deploy-interface fake --boot-interface fake \
                 --name {NODE}"
            ))
            .await?;
        bench.go("node manage", "manageable").await?;
        bench.go("node provide", "available").await?;
        // Nobody starts the server anew for it.
        bench.install()?;
        Ok(bench)
    }

    /// Puts the plug-in into its folder, whole or not at all.
    fn install(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let part = self.plugins.join(".polisher");
        std::fs::write(&part, PLUGIN)?;
        std::fs::set_permissions(&part, PermissionsExt::from_mode(0o755))?;
        Ok(std::fs::rename(&part, self.plugins.join("polisher"))?)
    }

    /// A deploy gets the steps of the templates of its traits, and those of the
    /// request.
    async fn templates(&mut self) -> Result<()> {
        let steps = json!([{"interface": "vendor", "step": "polish", "priority": 150,
            "args": {"colour": "gold"}}]);
        self.run(&format!(
            "deploy template create CUSTOM_POLISH --steps '{steps}'"
        ))
        .await?;
        let traits = r#"--instance-info traits='["CUSTOM_POLISH"]'"#;
        self.run(&format!("node set {NODE} {traits}")).await?;
        let refused = self.refused(&format!("node deploy {NODE}")).await?;
        ensure!(refused.contains("CUSTOM_POLISH"), "{refused}");
        self.run(&format!("node add trait {NODE} CUSTOM_POLISH"))
            .await?;
        let own = json!([{"interface": "vendor", "step": "polish", "priority": 60, "args": {}}]);
        let refused = self
            .refused(&format!("node deploy {NODE} --deploy-steps '{own}'"))
            .await?;
        ensure!(refused.contains("colour"), "{refused}");
        self.go("node deploy", "active").await?;
        self.polished("deploy", &["gold"])?;
        self.told("vendor.polish, deploy.deploy").await?;
        self.account
            .say("a deploy template by trait ran the plug-in");
        let own = json!([{"interface": "vendor", "step": "polish", "priority": 60,
            "args": {"colour": "red"}}]);
        self.go(&format!("node rebuild --deploy-steps '{own}'"), "active")
            .await?;
        self.polished("deploy", &["red"])?;
        self.told("deploy.deploy, vendor.polish").await?;
        self.account
            .say("a request's step went before the template's");
        Ok(())
    }

    /// Runbooks bring the steps of a cleaning and of a service.
    async fn runbooks(&mut self) -> Result<()> {
        let steps = json!([
            {"interface": "bios", "step": "factory_reset", "args": {}, "order": 1},
            {"interface": "vendor", "step": "polish", "args": {"colour": "blue"}, "order": 2},
            {"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 3},
        ]);
        self.run(&format!(
            "runbook create --name CUSTOM_RB --steps '{steps}'"
        ))
        .await?;
        self.run("runbook trait add CUSTOM_RB CUSTOM_RB").await?;
        let refused = self
            .refused(&format!("node service --runbook CUSTOM_RB {NODE}"))
            .await?;
        ensure!(refused.contains("CUSTOM_RB"), "{refused}");
        self.run(&format!("node add trait {NODE} CUSTOM_RB"))
            .await?;
        self.go("node service --runbook CUSTOM_RB", "active")
            .await?;
        self.polished("service", &["blue"])?;
        self.told("bios.factory_reset, vendor.polish, vendor.log_passthrough")
            .await?;
        self.go("node undeploy", "available").await?;
        self.go("node manage", "manageable").await?;
        self.go("node clean --runbook CUSTOM_RB", "manageable")
            .await?;
        self.polished("clean", &["blue"])?;
        self.account
            .say("a runbook ran in a service and in a cleaning");
        Ok(())
    }

    /// `hold` stops each kind of list, and `unhold` goes on behind it.
    async fn holds(&mut self) -> Result<()> {
        let steps = |colour: &str| {
            json!([
                {"interface": "power", "step": "hold", "args": {}},
                {"interface": "vendor", "step": "polish", "args": {"colour": colour}},
            ])
        };
        let clean = steps("held-1");
        self.held(&format!("node clean --clean-steps '{clean}'"), "clean hold")
            .await?;
        self.go("node unhold", "manageable").await?;
        self.polished("clean", &["held-1"])?;
        self.held(&format!("node clean --clean-steps '{clean}'"), "clean hold")
            .await?;
        let node = self.go("node abort", "clean failed").await?;
        ensure!(node["maintenance"] == false, "{node}");
        self.go("node manage", "manageable").await?;
        self.polished("clean", &[])?;

        self.go("node provide", "available").await?;
        let mut deploy = steps("held-2");
        for (step, priority) in [(0, 140), (1, 120)] {
            deploy[step]["priority"] = json!(priority);
        }
        let ask = format!("node deploy --deploy-steps '{deploy}'");
        self.held(&ask, "deploy hold").await?;
        self.go("node unhold", "active").await?;
        self.polished("deploy", &["held-2"])?;

        let ask = format!("node service --service-steps '{}'", steps("held-3"));
        self.held(&ask, "service hold").await?;
        self.go("node unhold", "active").await?;
        self.polished("service", &["held-3"])?;
        self.held(&ask, "service hold").await?;
        self.go("node abort", "active").await?;
        self.polished("service", &[])?;
        self.account.say("held, let go and aborted in all three");
        Ok(())
    }

    /// An abort waits for a step that must not be cut short; a conductor that is
    /// at work is not interrupted at all.
    async fn aborts(&mut self) -> Result<()> {
        self.go("node undeploy", "available").await?;
        self.go("node manage", "manageable").await?;
        let steps = json!([
            {"interface": "vendor", "step": "slow_polish", "args": {}},
            {"interface": "vendor", "step": "polish", "args": {"colour": "never"}},
        ]);
        self.ask(&format!("node clean --clean-steps '{steps}'"))
            .await?;
        self.until("slow_polish", |node| {
            node["provision_state"] == "clean wait" && node["reservation"].is_null()
        })
        .await?;
        self.ask("node abort").await?;
        // It is asked a few times more, and ends as it would have.
        let asked = self.given()?.len();
        let node = self
            .until("more questions", |node| {
                node["clean_step"]["abort_after"] == true
            })
            .await?;
        ensure!(node["provision_state"] == "clean wait", "{node}");
        while self.given()?.len() < asked + 2 {
            tokio::time::sleep(PAUSE).await;
        }
        let node = self.node().await?;
        ensure!(node["provision_state"] == "clean wait", "cut short: {node}");
        self.let_go(true)?;
        let node = self.until_state("clean failed").await?;
        ensure!(
            node["last_error"]
                == "By request, the clean operation was aborted during or after the completion of \
                    step \"vendor.slow_polish\"",
            "{}",
            node["last_error"]
        );
        ensure!(
            node["maintenance"] == false && node["target_provision_state"] == "manageable",
            "{node}"
        );
        self.let_go(false)?;
        self.polished("clean", &[])?;
        self.account.say("an abort waited for the end of its step");

        self.go("node manage", "manageable").await?;
        let steps = json!([{"interface": "vendor", "step": "polish",
            "args": {"colour": "busy", "blocks": true}}]);
        self.ask(&format!("node clean --clean-steps '{steps}'"))
            .await?;
        self.pids().await?;
        let refused = self.refused(&format!("node abort {NODE}")).await?;
        ensure!(refused.contains("locked"), "{refused}");
        self.let_go(true)?;
        self.until_state("manageable").await?;
        self.let_go(false)?;
        self.polished("clean", &["busy"])?;
        self.account.say("a conductor at work was not interrupted");
        Ok(())
    }

    /// A plug-in does not outlive its conductor; the step, which is repeatable,
    /// runs again.
    async fn killed(&mut self) -> Result<()> {
        let steps = json!([{"interface": "vendor", "step": "polish",
            "args": {"colour": "again", "blocks": true}}]);
        self.ask(&format!("node clean --clean-steps '{steps}'"))
            .await?;
        let pids = self.pids().await?;
        self.site.conductor("one")?.kill().await;
        let until = Instant::now() + PATIENCE;
        for pid in &pids {
            while runs(pid) {
                ensure!(
                    Instant::now() < until,
                    "process {pid} of the plug-in outlives its conductor"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
        self.account.say("the plug-in ended with its conductor");
        self.let_go(true)?;
        self.site.conductor("one")?.start().await?;
        self.until_state("manageable").await?;
        let attempts: Vec<Value> = self
            .given()?
            .iter()
            .map(|line| line["attempt"].clone())
            .collect();
        ensure!(attempts == [json!(1), json!(2)], "{attempts:?}");
        self.account
            .say("the step ran again, as its second attempt");
        Ok(())
    }

    /// Runs a command that must succeed.
    async fn run(&mut self, line: &str) -> Result<String> {
        let output = self.shell.run(&words(line)).await?;
        ensure!(
            output.code == 0,
            "`openstack baremetal {line}`: {}",
            output.err.trim()
        );
        Ok(output.out)
    }

    /// Runs a command that must fail; what it says.
    async fn refused(&mut self, line: &str) -> Result<String> {
        let output = self.shell.run(&words(line)).await?;
        ensure!(
            output.code != 0,
            "`openstack baremetal {line}` did not fail"
        );
        Ok(output.err)
    }

    /// The same on the node.
    async fn ask(&mut self, verb: &str) -> Result<()> {
        self.run(&format!("{verb} {NODE}")).await.map(drop)
    }

    /// Asks for something, and waits for the state that it leads to.
    async fn go(&mut self, verb: &str, state: &str) -> Result<Value> {
        self.ask(verb).await?;
        let node = self.until_state(state).await.context(verb.to_owned())?;
        // What ended badly before stays told.
        let aborted = matches!(verb, "node abort" | "node manage");
        ensure!(
            aborted || node["last_error"].is_null(),
            "{verb}: {}",
            node["last_error"]
        );
        Ok(node)
    }

    /// Asks for something that stops in a hold state, and looks that nothing has
    /// run before somebody lets it go on.
    async fn held(&mut self, verb: &str, state: &str) -> Result<()> {
        self.go(verb, state).await?;
        let given = self.given()?;
        ensure!(given.is_empty(), "{state}: {given:?}");
        Ok(())
    }

    async fn node(&mut self) -> Result<Value> {
        let text = self.run(&format!("node show {NODE} -f json")).await?;
        serde_json::from_str(&text).with_context(|| format!("the client printed {text:?}"))
    }

    async fn until_state(&mut self, state: &str) -> Result<Value> {
        self.until(state, |node| {
            node["provision_state"] == state && node["reservation"].is_null()
        })
        .await
    }

    async fn until(&mut self, what: &str, come: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let node = self.node().await?;
            if come(&node) {
                return Ok(node);
            }
            let state = node["provision_state"].as_str().unwrap_or_default();
            let failed = state.ends_with("failed") || state == "error";
            let failed = failed && node["reservation"].is_null();
            if failed || Instant::now() > until {
                bail!("{what} did not come: it is {state}; {}", node["last_error"]);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Lets the plug-in's waiting steps end, or wait again.
    fn let_go(&self, go: bool) -> Result<()> {
        let path = self.plugins.join("go");
        match go {
            true => Ok(std::fs::write(path, "")?),
            false => Ok(std::fs::remove_file(path)?),
        }
    }

    /// The processes of a plug-in that blocks, once it does.
    async fn pids(&self) -> Result<Vec<String>> {
        let path = self.plugins.join("polisher.pids");
        let until = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.ends_with('\n') {
                std::fs::remove_file(&path)?;
                let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                ensure!(pids.iter().all(|pid| runs(pid)), "{pids:?} do not run");
                return Ok(pids);
            }
            ensure!(Instant::now() < until, "the plug-in was not called");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What the plug-in was given since this was forgotten last.
    fn given(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(self.plugins.join("polisher.log")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).context("the plug-in got no JSON"))
            .collect()
    }

    /// The plug-in has polished in these colours, in lists of this kind, and in
    /// no others, since this was asked last.
    fn polished(&self, kind: &str, colours: &[&str]) -> Result<()> {
        let given = self.given()?;
        let polish = given.iter().filter(|line| line["step"]["step"] == "polish");
        let found: Vec<(&Value, &Value)> = polish
            .map(|line| (&line["kind"], &line["args"]["colour"]))
            .collect();
        let same = found.len() == colours.len()
            && found
                .iter()
                .zip(colours)
                .all(|((found, colour), wanted)| *found == kind && *colour == wanted);
        ensure!(same, "expected {kind} in {colours:?}, found {found:?}");
        match std::fs::remove_file(self.plugins.join("polisher.log")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The node's history tells of a list that began with these steps.
    async fn told(&mut self, steps: &str) -> Result<()> {
        let text = self
            .run(&format!("node history list {NODE} --long -f json"))
            .await?;
        let wanted = format!("with steps=[{steps}]");
        ensure!(text.contains(&wanted), "no {wanted} in {text}");
        Ok(())
    }
}

/// Whether a process is there; a dead one that nobody has fetched is not.
fn runs(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec!["baremetal".to_owned()];
    words.extend(split(line));
    words
}
