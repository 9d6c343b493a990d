//! How a simulated client reaches a server: through the simulated network, into the server's own connection task.

use super::program::ServerProgram;
use crate::executor::NodeId;
use crate::pipe;
use crate::world::World;
use keeper_client::Connector;
use keeper_consensus::DialError;
use std::io;
use tokio::io::DuplexStream;

#[derive(Clone)]
pub(super) struct SimConnector {
    pub(super) world: World,
    pub(super) program: ServerProgram,
    /// The client's machine.
    pub(super) client: NodeId,
}

/// Where clients dial a server.
pub(super) fn client_address(node: NodeId) -> String {
    format!("keeper-{node}:2181")
}

fn node_of(address: &str) -> Option<NodeId> {
    address.strip_prefix("keeper-")?.strip_suffix(":2181")?.parse().ok()
}

impl Connector for SimConnector {
    type Stream = DuplexStream;

    async fn connect(&self, address: &str) -> io::Result<DuplexStream> {
        let server =
            node_of(address).ok_or_else(|| io::Error::other(format!("{address}: name not known")))?;
        let pipe =
            pipe::connect(self.world.net(), self.client, server).await.map_err(|error| match error {
                DialError::Refused => io::Error::from(io::ErrorKind::ConnectionRefused),
                DialError::Unreachable(why) => io::Error::new(io::ErrorKind::TimedOut, why),
            })?;
        let Some(node) = self.program.node(server) else {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        };
        let (stream, remote) = (pipe.server, format!("10.0.1.{}:40000", self.client % 250));
        self.world.simulator().spawn_on(server, "client-connection", async move {
            node.serve_client(stream, remote, Vec::new()).await;
        });
        Ok(pipe.client)
    }
}
