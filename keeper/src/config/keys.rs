//! Every key of the configuration file. Data only and without an import: `cargo xtask generate` reads this file too, for
//! `docs/compatibility.md`. A test holds it to what the file's types accept.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    /// The key of `zoo.cfg`, or the system property, that says the same; empty where there is none.
    pub zookeeper: &'static str,
    /// The same in `<keeper_server>` of ClickHouse's configuration.
    pub clickhouse: &'static str,
}

const fn key(name: &'static str, zookeeper: &'static str, clickhouse: &'static str) -> Key {
    Key { name, zookeeper, clickhouse }
}

#[allow(dead_code, reason = "read by the test and by xtask")]
pub const KEYS: &[Key] = &[
    key("server.name", "", ""),
    key("server.data_dir", "dataDir", "storage_path, log_storage_path, snapshot_storage_path"),
    key("listen.client", "clientPort, clientPortAddress", "tcp_port"),
    key("listen.peer", "server.N", "raft_configuration.server.port"),
    key("listen.admin", "", ""),
    key("listen.http", "admin.serverPort, admin.serverAddress", "http_control.port"),
    key("listen.metrics", "metricsProvider.httpPort, metricsProvider.httpHost", "prometheus.port"),
    key("cluster.id", "", ""),
    key("cluster.secret_file", "", ""),
    key("cluster.admin_token_file", "", ""),
    key("session.timeout_ms_min", "minSessionTimeout", "coordination_settings.min_session_timeout_ms"),
    key("session.timeout_ms_max", "maxSessionTimeout", "coordination_settings.session_timeout_ms"),
    key("limits.frame_bytes_max", "jute.maxbuffer", "coordination_settings.max_request_size"),
    key("limits.connections_max", "maxCnxns", ""),
    key("limits.connections_per_address_max", "maxClientCnxns", ""),
    key("limits.memory_soft_bytes", "", "max_memory_usage_soft_limit"),
    key("four_letter_words.allow", "4lw.commands.whitelist", "four_letter_word_allow_list"),
    key("log.snapshot_log_bytes", "snapSizeLimitInKb", "coordination_settings.snapshot_distance"),
    key("log.segment_bytes", "", "coordination_settings.rotate_log_storage_interval"),
    key("auth.super_digest", "DigestAuthenticationProvider.superDigest", "superdigest"),
    key("quota.enforce", "enforceQuota", ""),
    key("features.off", "", "feature_flags"),
    key("reconfig.enabled", "reconfigEnabled", "enable_reconfiguration"),
    key("read_only.enabled", "readonlymode.enabled", ""),
    key("cleanup.ttl_period_ms", "", "coordination_settings.ttl_gc_period_ms"),
    key(
        "cleanup.container_period_ms",
        "znode.container.checkIntervalMs",
        "coordination_settings.container_gc_period_ms",
    ),
    key("auth.sasl_users_file", "java.security.auth.login.config", ""),
    key("auth.super_user", "superUser", ""),
    key("auth.require_sasl", "sessionRequireClientSASLAuth", ""),
    key("auth.require_schemes", "enforce.auth.schemes", ""),
    key("auth.allow_failed_sasl", "allowSaslFailedClients", ""),
    key("auth.clickhouse_password", "", "password"),
    key("auth.skip_acl", "skipACL", ""),
    key("auth.redact_acl", "", ""),
    key("auth.x509_super", "X509AuthenticationProvider.superUser", ""),
    key("listen.client_tls", "secureClientPort, secureClientPortAddress", "tcp_port_secure"),
    key("listen.client_takes_tls", "client.portUnification", ""),
    key("tls.certificate_file", "ssl.keyStore.location", "openSSL.server"),
    key("tls.key_file", "", ""),
    key("tls.ca_file", "ssl.trustStore.location", ""),
    key("tls.crl_file", "ssl.crl", ""),
    key("tls.client_auth", "ssl.clientAuth", ""),
    key("tls.protocols", "ssl.enabledProtocols, ssl.protocol", ""),
    key("tls.cipher_suites", "ssl.ciphersuites", ""),
    key("tls.verify_names", "", ""),
    key("tls.verify_client_addresses", "ssl.clientHostnameVerification", ""),
    key("tls.certificate_password_file", "ssl.keyStore.passwordPath, ssl.keyStore.password", ""),
    key("tls.ca_password_file", "ssl.trustStore.passwordPath, ssl.trustStore.password", ""),
    key("peer_tls.certificate_file", "ssl.quorum.keyStore.location", "raft_configuration.secure"),
    key("peer_tls.key_file", "", ""),
    key("peer_tls.ca_file", "ssl.quorum.trustStore.location", ""),
    key("peer_tls.crl_file", "ssl.quorum.crl", ""),
    key("peer_tls.client_auth", "", ""),
    key("peer_tls.protocols", "ssl.quorum.enabledProtocols, ssl.quorum.protocol", ""),
    key("peer_tls.cipher_suites", "ssl.quorum.ciphersuites", ""),
    key("peer_tls.verify_names", "ssl.quorum.hostnameVerification", ""),
    key("peer_tls.verify_client_addresses", "ssl.quorum.clientHostnameVerification", ""),
    key(
        "peer_tls.certificate_password_file",
        "ssl.quorum.keyStore.passwordPath, ssl.quorum.keyStore.password",
        "",
    ),
    key(
        "peer_tls.ca_password_file",
        "ssl.quorum.trustStore.passwordPath, ssl.quorum.trustStore.password",
        "",
    ),
    key("admin_tls.certificate_file", "ssl.quorum.keyStore.location", ""),
    key("admin_tls.key_file", "", ""),
    key("admin_tls.ca_file", "ssl.quorum.trustStore.location", ""),
    key("admin_tls.crl_file", "ssl.quorum.crl", ""),
    key("admin_tls.client_auth", "", ""),
    key("admin_tls.protocols", "ssl.quorum.enabledProtocols, ssl.quorum.protocol", ""),
    key("admin_tls.cipher_suites", "ssl.quorum.ciphersuites", ""),
    key("admin_tls.verify_names", "ssl.quorum.hostnameVerification", ""),
    key("admin_tls.verify_client_addresses", "ssl.quorum.clientHostnameVerification", ""),
    key(
        "admin_tls.certificate_password_file",
        "ssl.quorum.keyStore.passwordPath, ssl.quorum.keyStore.password",
        "",
    ),
    key(
        "admin_tls.ca_password_file",
        "ssl.quorum.trustStore.passwordPath, ssl.quorum.trustStore.password",
        "",
    ),
];
