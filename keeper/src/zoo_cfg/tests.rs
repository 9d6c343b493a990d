use super::*;

fn load_with(text: &str, myid: Option<&str>, flags: &str) -> Result<ZooCfg, String> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    if let Some(myid) = myid {
        std::fs::write(data.join("myid"), myid).unwrap();
    }
    let file = folder.path().join("zoo.cfg");
    std::fs::write(&file, text.replace("DATA", &data.display().to_string())).unwrap();
    let flags = flags.to_owned();
    let environment = move |name: &str| (name == "SERVER_JVMFLAGS").then(|| flags.clone());
    ZooCfg::load(&file, environment).map_err(|error| error.to_string())
}

pub(super) fn load(text: &str) -> Result<ZooCfg, String> {
    load_with(text, Some("1"), "")
}

pub(super) const LONE: &str = "dataDir=DATA\nclientPort=2181\n";
pub(super) const THREE: &str = "dataDir=DATA\nclientPort=2181\nserver.3=127.0.0.1:6:7\nserver.1=127.0.0.1:2:3\n\
                     server.2=127.0.0.1:4:5:observer\n";

#[test]
fn a_lone_server_listens_for_clients_only() {
    let cfg = load_with(LONE, None, "").unwrap();
    let config = cfg.config().unwrap();
    assert_eq!(config.listen.client, Some("0.0.0.0:2181".parse().unwrap()));
    for inner in [config.listen.peer, config.listen.admin, config.listen.http] {
        assert_eq!(inner, "127.0.0.1:0".parse().unwrap());
    }
    assert_eq!((config.session.timeout_ms_min, config.session.timeout_ms_max), (6_000, 60_000));
    assert_eq!(config.four_letter_words.allow, ["srvr"]);
    assert!(cfg.warnings.is_empty(), "{:?}", cfg.warnings);
}

#[test]
fn a_member_listens_on_the_ports_of_its_line() {
    let cfg = load(THREE).unwrap();
    let config = cfg.config().unwrap();
    assert_eq!(config.listen.peer, "127.0.0.1:2".parse().unwrap());
    assert_eq!(config.listen.admin, "127.0.0.1:3".parse().unwrap());
    assert_eq!(
        cfg.servers.iter().map(|line| (line.id, line.observer)).collect::<Vec<_>>(),
        [(1, false), (2, true), (3, false)]
    );
    assert!(config.overlaid("zoo.cfg", std::iter::empty(), &[]).is_ok());
    let set = ["limits.connections_max=7".to_owned()];
    let config = config.overlaid("zoo.cfg", std::iter::empty(), &set).unwrap();
    assert_eq!(config.limits.connections_max, 7);
}

#[test]
fn keys_and_flags_reach_our_configuration() {
    let text = format!(
        "{LONE}tickTime=500\nminSessionTimeout=-1\nmaxSessionTimeout=9000\nmaxCnxns=50\njute.maxbuffer=0x1fffff\n\
         4lw.commands.whitelist=ruok, mntr\nadmin.serverPort=8081\nsnapSizeLimitInKb=1024\nclientPortAddress=127.0.0.1\n"
    );
    let flag = "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:x= -Dzookeeper.skipACL=yes";
    let cfg = load_with(&text, None, flag).unwrap();
    let config = cfg.config().unwrap();
    assert_eq!((config.session.timeout_ms_min, config.session.timeout_ms_max), (1_000, 9_000));
    assert_eq!((config.limits.connections_max, config.limits.frame_bytes_max), (50, 0x1f_ffff));
    assert_eq!(config.four_letter_words.allow, ["ruok", "mntr"]);
    assert_eq!(config.listen.http, "0.0.0.0:8081".parse().unwrap());
    assert_eq!(config.listen.client, Some("127.0.0.1:2181".parse().unwrap()));
    assert_eq!(config.log.snapshot_log_bytes, 1 << 20);
    assert_eq!(config.auth.super_digest.as_deref(), Some("super:x="));
    assert!(config.auth.skip_acl);
}

#[test]
fn connections_of_one_address_are_sixty_unless_said() {
    for (text, max) in [("", 60), ("maxClientCnxns=0\n", 0), ("maxClientCnxns=3\n", 3)] {
        let cfg = load(&format!("{LONE}{text}")).unwrap();
        assert_eq!(cfg.config().unwrap().limits.connections_per_address_max, max, "{text}");
        assert!(cfg.warnings.is_empty(), "{:?}", cfg.warnings);
    }
}

#[test]
fn the_file_wins_over_a_flag() {
    let cfg = load_with(&format!("{LONE}jute.maxbuffer=2000\n"), None, "-Djute.maxbuffer=3000").unwrap();
    assert_eq!(cfg.frame_bytes_max, Some(2000));
}

#[test]
fn unknown_keys_are_named_with_their_line() {
    let cfg = load(&format!("{LONE}clientPrt=2\ninitLimit=5\nforceSync=no\nreconfigEnabled=true\n")).unwrap();
    let warned = |part: &str| cfg.warnings.iter().any(|line| line.contains(part));
    assert!(warned("line 3: `clientPrt` is unknown"), "{:?}", cfg.warnings);
    assert!(warned("line 5: `forceSync=no` is not obeyed"), "{:?}", cfg.warnings);
    assert!(cfg.remarks.iter().any(|line| line.contains("initLimit")), "{:?}", cfg.remarks);
    assert!(cfg.reconfig);
}

#[test]
fn a_key_that_asks_for_nothing_is_no_reason_to_warn() {
    let cfg = load(&format!("{LONE}reconfigEnabled=false\nmaxClientCnxns=0\nskipACL=no\n")).unwrap();
    assert!(cfg.warnings.is_empty(), "{:?}", cfg.warnings);
}

#[test]
fn flags_of_java_are_remarks_and_not_warnings() {
    let cfg =
        load_with(LONE, None, "-Xmx1g -Dfile.encoding=UTF-8 -Dzookeeper.log.dir=/x -Dzookeeper.nosuch=1")
            .unwrap();
    assert_eq!(cfg.remarks.len(), 3, "{:?}", cfg.remarks);
    assert_eq!(cfg.warnings.len(), 1, "{:?}", cfg.warnings);
    assert!(cfg.warnings[0].contains("nosuch"));
}

#[test]
fn nonsense_says_where_it_stands_and_what_is_allowed() {
    let cases = [
        (format!("{LONE}tickTime=fast\n"), "line 3", "a number from 1"),
        (format!("{LONE}tickTime=0\n"), "line 3", "a number from 1"),
        (format!("{LONE}skipACL=maybe\n"), "line 3", "true or false"),
        (format!("{LONE}ssl.clientAuth=perhaps\n"), "line 3", "none, want or need"),
        (format!("{LONE}minSessionTimeout=90000\n"), "line 3", "in order"),
        (format!("{LONE}jute.maxbuffer=99999999999\n"), "line 3", "a number from 1024"),
        (format!("{LONE}clientPortAddress=no.such.host.invalid\n"), "line 2", "no address"),
        (format!("{LONE}enforce.auth.enabled=true\n"), "zoo.cfg", "enforce.auth.schemes"),
        (format!("{LONE}server.1=h:2:3;2182\n"), "line 3", "client port is 2182"),
        (format!("{THREE}server.4=127.0.0.1:2:9\n"), "line 6", "again"),
        (format!("{LONE}server.1=h:2:3:observer\n"), "line 3", "observers"),
        ("clientPort=2181\n".into(), "zoo.cfg", "`dataDir` is missing"),
        ("dataDir=DATA\n".into(), "zoo.cfg", "`clientPort` is missing"),
        ("dataDir=DATA\nclientPort=0\n".into(), "line 2", "a number from 1 to 65535"),
        (format!("{LONE}dynamicConfigFile=/nowhere/x\n"), "line 3", "cannot read"),
    ];
    for (text, place, part) in cases {
        let error = load(&text).map(|_| ()).unwrap_err();
        assert!(error.contains(place) && error.contains(part), "{text}: {error}");
    }
}

#[test]
fn the_id_comes_from_myid() {
    assert_eq!(load_with(THREE, Some("3\n"), "").unwrap().id, 3);
    for (myid, part) in [(None, "cannot be read"), (Some("x"), "no number"), (Some("9"), "no line server.9")]
    {
        let error = load_with(THREE, myid, "").map(|_| ()).unwrap_err();
        assert!(error.contains("myid") && error.contains(part), "{error}");
    }
}

#[test]
fn data_of_a_zookeeper_is_not_hidden_behind_an_empty_tree() {
    let folder = tempfile::tempdir().unwrap();
    let cfg = ZooCfg { data_dir: folder.path().to_path_buf(), ..ZooCfg::default() };
    std::fs::create_dir(folder.path().join("version-2")).unwrap();
    cfg.prepare().unwrap();
    std::fs::remove_dir_all(folder.path().join(OWN_FOLDER)).unwrap();
    std::fs::write(folder.path().join("version-2/snapshot.0"), "").unwrap();
    let error = cfg.prepare().unwrap_err().to_string();
    assert!(error.contains("version-2"), "{error}");
}

#[test]
fn sasl_and_tls_are_read_into_types() {
    let folder = tempfile::tempdir().unwrap();
    let jaas = folder.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    std::fs::write(&jaas, format!("Server {{ {module} required user_a=\"b\"; }};")).unwrap();
    let text = format!(
        "{LONE}authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\nenforce.auth.enabled=true\n\
         enforce.auth.schemes=sasl\nsessionRequireClientSASLAuth=true\nsecureClientPort=2281\n\
         ssl.keyStore.location=/k.pem\nssl.clientAuth=want\n"
    );
    let flag = format!("-Djava.security.auth.login.config={}", jaas.display());
    let cfg = load_with(&text, None, &flag).unwrap();
    assert!(cfg.sasl.enabled && cfg.sasl.required);
    let config = cfg.config().unwrap();
    assert_eq!(config.auth.sasl_users_file, Some(jaas));
    assert!(config.auth.require_sasl);
    assert_eq!(config.auth.require_schemes, ["sasl"]);
    let tls = config.tls.expect("a TLS port");
    assert_eq!(tls.client_auth, Some(keeper_tls::ClientAuth::Optional));
    assert_eq!(tls.certificate_file.as_deref(), Some(Path::new("/k.pem")));
    assert_eq!(config.listen.client_tls, Some("0.0.0.0:2281".parse().unwrap()));
}

#[test]
fn members_that_shall_log_in_need_passwords_or_a_secret_file() {
    let folder = tempfile::tempdir().unwrap();
    let jaas = folder.path().join("jaas.conf");
    let asks = format!("{THREE}quorum.auth.enableSasl=true\n");
    let flag = format!("-Djava.security.auth.login.config={}", jaas.display());
    let users = |section: &str| {
        std::fs::write(&jaas, format!("{section} {{ a.B required user_x=\"y\"; }};")).unwrap();
        load_with(&asks, Some("1"), &flag).map(|cfg| cfg.quorum_users.map(|users| users.len()))
    };
    assert_eq!(users("QuorumServer"), Ok(Some(1)));
    let error = users("Server").unwrap_err();
    assert!(error.contains("line 6") && error.contains("castellan.secretFile"), "{error}");
    assert!(load(&asks).is_err());
    let named = format!("{asks}quorum.auth.server.loginContext=Members\n");
    std::fs::write(&jaas, "Members { a.B required user_x=\"y\"; };").unwrap();
    assert!(load_with(&named, Some("1"), &flag).unwrap().quorum_users.is_some());
    for text in [format!("{asks}castellan.secretFile=/s\n"), format!("{LONE}quorum.auth.enableSasl=true\n")] {
        let cfg = load(&text).unwrap();
        assert!(cfg.quorum_users.is_none() && cfg.warnings.is_empty(), "{:?}", cfg.warnings);
    }
}

#[test]
fn metrics_have_the_port_of_zookeepers_provider() {
    let prometheus =
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";
    let at = |text: &str| load(&format!("{LONE}{text}")).unwrap().config().unwrap().listen.metrics;
    assert_eq!(at(""), None);
    assert_eq!(at(prometheus), Some("0.0.0.0:7000".parse().unwrap()));
    let port = "metricsProvider.httpPort=7070\n";
    assert_eq!(at(&format!("{prometheus}{port}")), Some("0.0.0.0:7070".parse().unwrap()));
    assert_eq!(
        at(&format!("{port}metricsProvider.httpHost=127.0.0.1\n")),
        Some("127.0.0.1:7070".parse().unwrap())
    );
    assert_eq!(at(&format!("metricsProvider.className=a.DefaultMetricsProvider\n{port}")), None);
}

#[test]
fn a_login_that_nobody_has_refuses_everybody_and_starts() {
    let folder = tempfile::tempdir().unwrap();
    let lone = LONE.replace("DATA", &folder.path().display().to_string());
    let cfg = load_with(&format!("{lone}sessionRequireClientSASLAuth=true\n"), None, "").unwrap();
    cfg.prepare().unwrap();
    let config = cfg.config().unwrap();
    config.check().unwrap();
    let users = std::fs::read_to_string(config.auth.sasl_users_file.unwrap()).unwrap();
    let password = users.strip_prefix("nobody:").unwrap().trim();
    assert_eq!(password.len(), 64, "{users}");
    assert_eq!(load(LONE).unwrap().config().unwrap().auth.sasl_users_file, None);
}

#[test]
fn a_jaas_file_without_users_is_warned_of_and_offers_no_sasl() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["", "Client { a.B required user_a=\"b\"; };", "Server { a.Krb5LoginModule required; };"] {
        let jaas = folder.path().join("jaas.conf");
        std::fs::write(&jaas, text).unwrap();
        let flag = format!("-Djava.security.auth.login.config={}", jaas.display());
        let cfg = load_with(LONE, None, &flag).unwrap();
        assert_eq!(cfg.config().unwrap().auth.sasl_users_file, None, "{text}");
        assert!(cfg.warnings.iter().any(|line| line.contains("SASL is not offered")), "{:?}", cfg.warnings);
    }
}
