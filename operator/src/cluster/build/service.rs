//! The two Services: one gives each member a stable name, ready or not; the other leads clients to ready members.

use castellan_api::ServiceType;
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::Context;
use crate::cluster::names::{ADMIN_PORT, CLIENT_PORT, HTTP_PORT, PEER_PORT};

/// Members must find each other before any of them is ready.
pub fn headless(context: &Context<'_>) -> Service {
    Service {
        metadata: context.metadata(context.names.headless_service()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            publish_not_ready_addresses: Some(true),
            selector: Some(context.names.selector()),
            ports: Some(vec![
                port("client", CLIENT_PORT),
                port("peer", PEER_PORT),
                port("admin", ADMIN_PORT),
                port("http", HTTP_PORT),
            ]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub fn client(context: &Context<'_>) -> Service {
    let wanted = context.render.spec.service.clone().unwrap_or_default();
    let mut metadata = context.metadata(context.names.client_service());
    if !wanted.annotations.is_empty() {
        metadata.annotations = Some(wanted.annotations);
    }
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(wanted.type_.unwrap_or(ServiceType::ClusterIp).as_str().into()),
            selector: Some(context.names.selector()),
            ports: Some(vec![port("client", CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.into()),
        port: i32::from(port),
        target_port: Some(IntOrString::String(name.into())),
        protocol: Some("TCP".into()),
        ..ServicePort::default()
    }
}
