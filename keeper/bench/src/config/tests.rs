//! ClickHouse keeper-bench's documented form, newer and older, and what is refused with which line.

use super::*;

/// Every documented key once.
const FULL: &str = r#"
concurrency: 20
iterations: 10000
report_delay: 4
timelimit: 300.5
continue_on_error: true
pipeline_depth: 8
warmup_seconds: 5
enable_tracing: true
use_remove_recursive: false

connections:
    secure: false
    operation_timeout_ms: 3000
    connection_timeout_ms: 40000
    use_compression: true
    use_xid_64: false
    host: "first:9181"
    connection:
        host: "second:9181"
        sessions: 2
        operation_timeout_ms: 2000
        session_timeout_ms: 2500
        secure: true
    host: "third:9181"

setup:
    node:
        name: "tree"
        data: "some"
        node:
            repeat: 10
            name:
                random_string:
                    size: 20
            tag: "inner"
            node:
                repeat: 3
                name:
                    random_string:
                        size: {min_value: 10, max_value: 12}
                tag: "leaves"
    node:
        name: "other"

generator:
    seed: 42
    requests:
        create:
            path: "/other"
            name_length:
                min_value: 10
                max_value: 20
            data: "payload"
            remove_factor: 0.5
            keep_count: 100
        set:
            weight: 3
            path:
                tagged: "leaves"
            data:
                random_string:
                    size: 10
        get:
            path:
                - "/tree"
                - "/other"
            path:
                children_of: "/tree"
            watch_probability: 0.25
        list:
            path: "/tree"
        multi:
            weight: 20
            size: 10
            get:
                path:
                    children_of: "/tree"
            get:
                weight: 2
                path: "/other"
        multi:
            create:
                path: "/other"
            set:
                path: "/tree"
                data: "x"

output:
    file:
        path: "output.json"
        with_timestamp: true
    stdout: true
"#;

#[test]
fn every_documented_key_is_read() {
    let config = Config::parse(FULL).unwrap();
    assert_eq!((config.concurrency, config.pipeline_depth, config.iterations), (20, 8, 10_000));
    assert_eq!(config.time_limit, Some(Duration::from_millis(300_500)));
    assert_eq!((config.report_delay.as_secs(), config.warmup.as_secs()), (4, 5));
    assert!(config.continue_on_error && !config.use_remove_recursive);
    assert_eq!((config.output.file.as_deref(), config.output.stdout), (Some("output.json"), true));
    assert!(config.output.with_timestamp);
    assert_eq!(config.notes.len(), 2, "compression and tracing: {:?}", config.notes);

    let endpoints = &config.connections.endpoints;
    let hosts: Vec<(&str, usize)> = endpoints.iter().map(|e| (e.host.as_str(), e.sessions)).collect();
    assert_eq!(hosts, [("first:9181", 1), ("third:9181", 1), ("second:9181", 2)]);
    assert_eq!(endpoints[0].operation_timeout, Some(Duration::from_secs(3)));
    let second = &endpoints[2];
    assert_eq!(
        (second.operation_timeout, second.session_timeout_ms),
        (Some(Duration::from_secs(2)), Some(2_500))
    );
    assert_eq!(second.connect_timeout, Some(Duration::from_secs(40)), "from the defaults");
    assert!(second.secure && !endpoints[0].secure);

    assert_eq!(config.setup.len(), 2);
    let inner = &config.setup[0].children[0];
    assert_eq!((inner.repeat, inner.name.clone()), (10, Text::Random(Number::fixed(20))));
    assert_eq!(inner.children[0].name, Text::Random(Number { min: 10, max: 12 }));
    assert_eq!(inner.children[0].tag.as_deref(), Some("leaves"));

    let generator = config.generator.unwrap();
    assert_eq!((generator.seed, generator.requests.len()), (Some(42), 6));
    let weights: Vec<u64> = generator.requests.iter().map(|weighted| weighted.weight).collect();
    assert_eq!(weights, [1, 3, 1, 1, 20, 1]);
    let RequestConfig::Create { name_length, remove_factor, keep_count, .. } = &generator.requests[0].request
    else {
        panic!("a create comes first");
    };
    assert_eq!((*name_length, *remove_factor, *keep_count), (Number { min: 10, max: 20 }, 0.5, 100));
    let get = &generator.requests[2].request;
    let fixed = |path: &str| PathSource::Fixed(path.to_owned());
    let children = PathSource::ChildrenOf("/tree".to_owned());
    assert_eq!(get.sources(), [fixed("/tree"), fixed("/other"), children]);
    assert!(get.watches() && generator.watches() && generator.has_multi_read());
    let RequestConfig::Multi { size, requests } = &generator.requests[5].request else {
        panic!("a multi comes last");
    };
    assert_eq!((*size, requests.len(), requests[0].request.kinds()), (None, 2, Some(Kinds::Writes)));
}

#[test]
fn older_files_with_their_names_and_a_setup_inside_the_generator_are_read() {
    let text = r#"
concurrency: 20
delay: 4
timelimit: 300
continue_on_errors: true
connections:
  host: "localhost:9181"
generator:
  setup:
    node:
      name: "test"
      node:
        repeat: 2
        node:
          repeat: 2
          name:
            random_string:
              size: 12
        name:
          random_string:
            size: 15
  requests:
    get:
      path: "/test"
output:
  file: "result.json"
"#;
    let config = Config::parse(text).unwrap();
    assert_eq!((config.report_delay.as_secs(), config.continue_on_error), (4, true));
    assert_eq!(config.setup[0].children[0].children[0].repeat, 2);
    assert_eq!(config.output.file.as_deref(), Some("result.json"));
}

#[test]
fn an_empty_file_has_the_documented_defaults() {
    let config = Config::empty();
    assert_eq!((config.concurrency, config.pipeline_depth, config.iterations), (1, 1, 0));
    assert_eq!((config.report_delay.as_secs(), config.time_limit), (1, None));
    assert!(!config.continue_on_error && config.use_remove_recursive && config.generator.is_none());
}

/// The error of a configuration: its line and a part of its message.
fn check_refused(text: &str, line: u64, part: &str) {
    let error = Config::parse(text).map(|_| ()).unwrap_err();
    assert!(error.message.contains(part), "{error}");
    assert_eq!(error.line, Some(line), "{error}");
}

#[test]
fn what_is_unknown_is_refused_with_its_line() {
    check_refused("concurrency: 1\nconcurency: 2\n", 2, "concurency is unknown; known here: concurrency");
    check_refused("generator:\n  requests:\n    get:\n      path: /a\n      pth: /b\n", 5, "pth is unknown");
    check_refused("connections:\n  host: a:1\n  hots: b:1\n", 3, "connections.hots is unknown");
    check_refused("generator:\n  requests:\n    delete:\n      path: /a\n", 3, "create, set, get, list");
    check_refused("setup:\n  node:\n    name: a\n    nodes: 3\n", 4, "setup.node.nodes is unknown");
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_line() {
    let request = |lines: &str| format!("generator:\n  requests:\n{lines}");
    check_refused("concurrency: many\n", 1, "`many` is not a whole number");
    check_refused("concurrency: 0\n", 1, "from 1 to");
    check_refused(&request("    get:\n      path: a\n"), 4, "`a` is to begin with /");
    check_refused(&request("    get:\n      weight: 2\n"), 4, "has no path");
    check_refused(&request("    get:\n      path: /a\n      watch_probability: 1.5\n"), 5, "from 0 to 1");
    check_refused(&request("    get:\n      path: /a\n      weight: 0\n"), 4, "at least 1");
    check_refused(&request("    get:\n      path:\n        tagged: no\n"), 5, "has the tag `no`");
    check_refused(
        &request("    multi:\n      get:\n        path: /a\n      set:\n        path: /a\n        data: x\n"),
        4,
        "creates and sets, or gets and lists",
    );
    check_refused(&request("    multi:\n      multi:\n        get:\n          path: /a\n"), 4, "a multi has");
    check_refused("setup:\n  node:\n    name: a\n    repeat: 2\n", 3, "its name is to be random");
    check_refused("setup:\n  node:\n    data: a\n", 3, "has no name");
    check_refused("setup:\n  node:\n    name: zookeeper\n", 1, "none may be /, /zookeeper or /keeper");
    let range = "    create:\n      path: /a\n      name_length: {min_value: 9, max_value: 8}\n";
    check_refused(&request(range), 5, "min_value 9 is above max_value 8");
    check_refused("a: [1\n", 1, "");
}

#[test]
fn repeats_that_would_make_too_many_nodes_are_refused() {
    let level = |inner: &str, indent: usize| {
        let pad = " ".repeat(indent);
        format!("{pad}node:\n{pad}  repeat: 2000\n{pad}  name: {{random_string: {{size: 8}}}}\n{inner}")
    };
    let text = format!("setup:\n{}", level(&level("", 4), 2));
    let error = Config::parse(&text).map(|_| ()).unwrap_err();
    assert!(error.message.contains("more than 1000000 nodes"), "{error}");
}
