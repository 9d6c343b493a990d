//! Revocation lists: who is refused for them, on which ports, and when a list is replaced or gone.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // outside the simulator: files and clocks of tests

mod support;

use keeper_tls::{ClientTls, Port, Reason, Tls, TlsConfig};
use std::sync::Arc;
use std::time::Duration;
use support::{Authority, Folder, Issued};

const LATER: i32 = 4_000;

async fn let_in(tls: &Tls, client: &ClientTls) -> Option<String> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (accepted, _) =
        tokio::join!(tls.accept(theirs, "10.0.0.9:5"), client.connect(ours, "localhost:2281"));
    accepted?.subject
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}

fn port(folder: &Folder, ours: &Authority, lists: &str) -> TlsConfig {
    TlsConfig {
        crl_file: Some(folder.write("crl.pem", lists)),
        ..folder.port("server", &ours.issue("server"), ours)
    }
}

fn open(config: &TlsConfig) -> Arc<Tls> {
    Tls::open(Port::Client, config).unwrap()
}

#[tokio::test]
async fn a_revoked_client_is_refused_as_soon_as_the_list_says_so() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let (lost, good) = (ours.issue("lost"), ours.issue("good"));
    let tls = open(&port(&folder, &ours, &ours.revoke(&[], LATER)));
    tls.watch();
    let (with_lost, with_good) =
        (folder.client("lost", &ours, Some(&lost)), folder.client("good", &ours, Some(&good)));
    assert_eq!(let_in(&tls, &with_lost).await.as_deref(), Some("CN=lost,O=Castellan"));

    folder.write("crl.pem", &ours.revoke(&[&lost], LATER));
    tls.look_now();
    eventually("the new list is used", || tls.counts().reloads() == 1).await;
    assert_eq!(let_in(&tls, &with_lost).await, None);
    assert_eq!(let_in(&tls, &with_good).await.as_deref(), Some("CN=good,O=Castellan"));
    assert_eq!(tls.counts().refused(Reason::Revoked), 1);
    // The first day of the year 4000.
    assert_eq!(tls.counts().lists_due_s(), Some(64_060_588_800));

    // A list cut short changes nothing.
    folder.write("crl.pem", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    tls.look_now();
    eventually("the broken list is noticed", || tls.counts().is_stale()).await;
    assert_eq!(let_in(&tls, &with_lost).await, None);
    assert_eq!(let_in(&tls, &with_good).await.as_deref(), Some("CN=good,O=Castellan"));
}

#[tokio::test]
async fn without_a_current_list_of_its_authority_nobody_is_known_to_be_good() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let client = folder.client("good", &ours, Some(&ours.issue("good")));
    // Another authority's, one that is out of date, one with our name that we have not signed.
    let forged = Authority::new("ours").revoke(&[], LATER);
    for lists in [other.revoke(&[], LATER), ours.revoke(&[], 2_025), forged] {
        let tls = open(&port(&folder, &ours, &lists));
        assert_eq!(let_in(&tls, &client).await, None);
        assert_eq!(tls.counts().refused(Reason::RevocationUnknown), 1);
    }
    // Both lists in one file.
    let both = other.revoke(&[], LATER) + &ours.revoke(&[], LATER);
    let tls = open(&port(&folder, &ours, &both));
    assert_eq!(let_in(&tls, &client).await.as_deref(), Some("CN=good,O=Castellan"));
}

#[tokio::test]
async fn a_revoked_member_neither_dials_nor_is_dialled() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let (lost, good) = (ours.issue("lost"), ours.issue("good"));
    let lists = folder.write("crl.pem", &ours.revoke(&[&lost], LATER));
    let member = |name: &str, issued: &Issued, knows: bool, verify_names: bool| {
        let crl_file = knows.then(|| lists.clone());
        let config = TlsConfig { crl_file, verify_names, ..folder.port(name, issued, &ours) };
        Tls::open(Port::Peer, &config).unwrap()
    };
    let meet = async |from: &Tls, to: &Tls, address: &str| {
        let (here, there) = tokio::io::duplex(1 << 16);
        tokio::join!(from.dial(here, address), to.accept(there, "10.0.0.9:5"))
    };
    let member_lost = member("a", &lost, false, true);
    for verify_names in [true, false] {
        let member_good = member("b", &good, true, verify_names);
        assert!(meet(&member_lost, &member_good, "localhost:1").await.1.is_none());
        assert_eq!(member_good.counts().refused(Reason::Revoked), 1);
        let address = if verify_names { "localhost:1" } else { "elsewhere:1" };
        assert!(meet(&member_good, &member_lost, address).await.0.is_none());
        assert_eq!(member_good.counts().refused(Reason::Revoked), 2);
        let third = member("c", &good, true, verify_names);
        assert!(meet(&member_good, &third, address).await.0.is_some());
    }
}

#[test]
fn a_file_without_lists_is_named() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let mut config = port(&folder, &ours, &ours.pem);
    let error = Tls::open(Port::Client, &config).err().unwrap().to_string();
    assert!(error.contains("crl.pem") && error.contains("BEGIN X509 CRL"), "{error}");
    config = port(&folder, &ours, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    let error = Tls::open(Port::Client, &config).err().unwrap().to_string();
    assert!(error.contains("crl.pem"), "{error}");
}
