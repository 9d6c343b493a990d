//! ClickHouse: two servers of Debian's package that replicate through our ensemble.

use anyhow::Result;

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::command;

pub async fn run(context: &Context) -> Result<Report> {
    command::need("clickhouse-server", "clickhouse-server")?;
    command::need("clickhouse-client", "clickhouse-client")?;
    command::need("python3", "python3")?;
    let ensemble = Ensemble::start(context).await?;
    let mut command = super::command(context, "python3")?;
    command.arg(context.glue.join("clickhouse_checks.py")).arg(&context.run);
    command.arg(ensemble.connect_string()).arg(ensemble.pids());
    report::tap(&super::output(context, "clickhouse", command).await?).some("clickhouse")
}
