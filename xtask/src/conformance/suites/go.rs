//! Go: the tests of the module github.com/go-zookeeper/zk, which start servers through `zkServer.sh` by themselves.

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::report::{self, Report};
use crate::{command, progress};

const MODULE: &str = "github.com/go-zookeeper/zk";

pub async fn run(context: &Context) -> Result<Report> {
    command::need("go", "golang-go")?;
    let (go_mod, go_sum) = (read(context, "go.mod")?, read(context, "go.sum")?);
    super::once(&context.home, &format!("{go_mod}{go_sum}"), || {
        progress::step("fetching the Go module");
        std::fs::write(context.home.join("go.mod"), &go_mod)?;
        std::fs::write(context.home.join("go.sum"), &go_sum)?;
        std::fs::write(
            context.home.join("conformance.go"),
            format!("package conformance\n\nimport _ \"{MODULE}\"\n"),
        )?;
        let mut go = command::command("go", &["mod", "download"]);
        command::run_quiet(go.current_dir(&context.home)).context("is the Go module proxy reachable?")
    })?;
    let mut command = super::command(context, "go")?;
    let limit = format!("-timeout={}s", context.time_max.as_secs());
    command.args(["test", "-json", "-count=1", &limit]).current_dir(&context.home);
    if let Some(only) = context.only.first() {
        command.args(["-run", only]);
    }
    command.arg(MODULE);
    report::go(&super::output(context, "go-zk", command).await?).some("go test")
}

fn read(context: &Context, name: &str) -> Result<String> {
    let file = context.glue.join(name);
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}
