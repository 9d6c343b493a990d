//! `keeper member …`: the admin protocol by hand, for clusters without the operator.

use super::Failure;
use super::output::print;
use super::tls::TlsFlags;
use anyhow::Context;
use clap::{Args, Subcommand};
use keeper_client::admin::{AdminClient, Member, MembershipResponse};
use keeper_client::limits::ADMIN_CALL_TIMEOUT;
use std::path::PathBuf;

#[derive(Args)]
pub struct MemberCommand {
    /// Admin address of the member to ask; all but `bootstrap` and `list` go to the leader.
    #[arg(long, env = "KEEPER_ADMIN", default_value = "127.0.0.1:9235")]
    admin: String,
    /// File with the admin token.
    #[arg(long, env = "KEEPER_ADMIN_TOKEN_FILE")]
    token_file: PathBuf,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Found a cluster of this one member.
    Bootstrap {
        /// 32 hexadecimal digits that name the cluster.
        #[arg(long)]
        cluster: String,
        #[command(flatten)]
        member: NewMember,
    },
    /// Add a member without a vote.
    Add(NewMember),
    /// Give a learner its vote.
    Promote { server_id: u64 },
    /// Take a member out.
    Remove { server_id: u64 },
    /// Hand leadership to a voter.
    Transfer { server_id: u64 },
    /// Show the committed configuration.
    List,
}

#[derive(Args)]
struct NewMember {
    /// Never used before in this cluster; begins at 1.
    #[arg(long)]
    server_id: u64,
    /// host:port that the other members dial.
    #[arg(long)]
    peer: String,
    /// host:port for clients.
    #[arg(long)]
    client: String,
    #[arg(long)]
    name: String,
}

impl NewMember {
    fn into_message(self) -> Member {
        Member {
            server_id: self.server_id,
            peer_address: self.peer,
            client_address: self.client,
            name: self.name,
        }
    }
}

impl MemberCommand {
    pub async fn run(self) -> Result<(), Failure> {
        let token = std::fs::read_to_string(&self.token_file)
            .with_context(|| format!("cannot read the token file {}", self.token_file.display()))?;
        let admin =
            AdminClient::connect_with(&self.admin, &token, ADMIN_CALL_TIMEOUT, self.tls.open()?).await?;
        let answer = match self.action {
            Action::Bootstrap { cluster, member } => admin.bootstrap(&cluster, member.into_message()).await?,
            Action::Add(member) => admin.add_learner(member.into_message(), None).await?,
            Action::Promote { server_id } => admin.promote(server_id, None).await?,
            Action::Remove { server_id } => admin.remove(server_id, None).await?,
            Action::Transfer { server_id } => admin.transfer_leadership(server_id, None).await?,
            Action::List => admin.committed_membership().await?,
        };
        Ok(print(&table(&answer))?)
    }
}

fn table(answer: &MembershipResponse) -> String {
    let Some(membership) = &answer.membership else { return "no membership\n".into() };
    let row = |member: &Member, role: &str| {
        let leads = if member.server_id == answer.leader_id { " (leader)" } else { "" };
        let (id, name) = (member.server_id, &member.name);
        format!("{id}\t{name}\t{role}{leads}\t{}\t{}\n", member.peer_address, member.client_address)
    };
    let voters = membership.voters.iter().map(|member| row(member, "voter"));
    let learners = membership.learners.iter().map(|member| row(member, "learner"));
    voters.chain(learners).collect()
}
