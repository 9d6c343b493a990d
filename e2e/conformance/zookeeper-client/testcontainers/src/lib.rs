//! What the tests of the crate `zookeeper-client` use of `testcontainers`, without containers: an image is run as
//! `$ZOOKEEPER_BIN_PATH/zkServer.sh start-foreground zoo.cfg`. Files that would be mounted are used where they lie,
//! their paths replaced in the configuration and the flags; port 2181 becomes a free one.

use std::fs;
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub mod clients {
    pub use crate::Cli;
}
pub mod core {
    pub use crate::{Container, Healthcheck, LogStream, RunnableImage, WaitFor};
}
pub mod images {
    pub mod generic {
        pub use crate::GenericImage;
    }
}

const START_TIME_MAX: Duration = Duration::from_secs(60);
const STOP_TIME_MAX: Duration = Duration::from_secs(10);
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
/// The only releases that `zkServer.sh` stands for.
const RELEASE: &str = "3.9";

/// A container's health is asked for with a word at its port instead.
#[derive(Default)]
pub struct Healthcheck;

impl Healthcheck {
    pub fn with_cmd<I: IntoIterator>(self, _command: I) -> Self {
        self
    }

    pub fn with_interval(self, _interval: Duration) -> Self {
        self
    }

    pub fn with_retries(self, _retries: u32) -> Self {
        self
    }
}

pub enum WaitFor {
    Healthcheck,
}

pub struct GenericImage {
    tag: String,
    variables: Vec<(String, String)>,
}

impl GenericImage {
    pub fn new(_name: impl Into<String>, tag: impl Into<String>) -> Self {
        GenericImage { tag: tag.into(), variables: Vec::new() }
    }

    pub fn with_env_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub fn with_healthcheck(self, _check: Healthcheck) -> Self {
        self
    }

    pub fn with_wait_for(self, _what: WaitFor) -> Self {
        self
    }
}

pub struct RunnableImage<I> {
    image: I,
    /// Path here, path in the container.
    mounts: Vec<(String, String)>,
    host_network: bool,
}

impl From<GenericImage> for RunnableImage<GenericImage> {
    fn from(image: GenericImage) -> Self {
        RunnableImage { image, mounts: Vec::new(), host_network: false }
    }
}

impl RunnableImage<GenericImage> {
    pub fn with_volume<Here: Into<String>, There: Into<String>>(mut self, mount: (Here, There)) -> Self {
        self.mounts.push((mount.0.into(), mount.1.into()));
        self
    }

    pub fn with_network(mut self, network: impl Into<String>) -> Self {
        self.host_network = network.into() == "host";
        self
    }
}

#[derive(Default)]
pub struct Cli;

impl Cli {
    pub fn run(&self, image: impl Into<RunnableImage<GenericImage>>) -> Container<'_, GenericImage> {
        let image = image.into();
        let tag = &image.image.tag;
        assert!(tag.starts_with(RELEASE), "there is no server of release {tag} here, only of {RELEASE}");
        let home = fresh_folder();
        let port = if image.host_network { 0 } else { free_port() };
        let mut data = home.join("data");
        let mut text = None;
        let mut files = Vec::new();
        for (here, there) in image.mounts {
            match there.as_str() {
                "/data" => data = here.into(),
                "/conf/zoo.cfg" => text = Some(fs::read_to_string(here).expect("the test's zoo.cfg")),
                _ => files.push((there, here)),
            }
        }
        fs::create_dir_all(&data).expect("a data folder");
        if !data.join("myid").exists() {
            fs::write(data.join("myid"), "1\n").expect("myid");
        }
        // What the image makes of an empty /conf.
        let mut text = text.unwrap_or_else(|| "dataDir=/data\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n".into());
        text = text.replace("dataDir=/data", &format!("dataDir={}", data.display()));
        text = text.replace("lientPort=2181", &format!("lientPort={port}"));
        text.push_str("\ntickTime=2000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n");
        let mut variables = image.image.variables;
        for (there, here) in &files {
            text = text.replace(there, here);
            variables.iter_mut().for_each(|(_, value)| *value = value.replace(there, here));
        }
        let configuration = home.join("zoo.cfg");
        fs::write(&configuration, &text).expect("zoo.cfg");
        let secure = text.contains("secureClientPort");
        let port = if image.host_network { own_port(&text, &data) } else { port };
        let container =
            Container { home, configuration, variables, port, secure, child: Mutex::new(None), life: PhantomData };
        container.start();
        container
    }
}

fn fresh_folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("zookeeper-client-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Behind the `;` of this server's line, found by myid.
fn own_port(text: &str, data: &Path) -> u16 {
    let id = fs::read_to_string(data.join("myid")).expect("myid");
    let start = format!("server.{}=", id.trim());
    let line = text.lines().find(|line| line.starts_with(&start)).expect("a line of this server");
    line.rsplit([':', ';']).next().and_then(|port| port.parse().ok()).expect("a client port in the line")
}

pub struct Container<'d, I> {
    home: PathBuf,
    configuration: PathBuf,
    variables: Vec<(String, String)>,
    port: u16,
    secure: bool,
    child: Mutex<Option<Child>>,
    life: PhantomData<&'d I>,
}

impl<I> Container<'_, I> {
    pub fn get_host_port(&self, _inside: u16) -> u16 {
        self.port
    }

    pub fn start(&self) {
        let launcher = PathBuf::from(std::env::var_os("ZOOKEEPER_BIN_PATH").expect("ZOOKEEPER_BIN_PATH is set"));
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).expect("a log file");
        let mut command = Command::new(launcher.join("zkServer.sh"));
        command.arg("start-foreground").arg(&self.configuration).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        *self.child.lock().expect("no panic") = Some(command.spawn().expect("zkServer.sh starts"));
        let end = Instant::now() + START_TIME_MAX;
        while !self.serves() {
            assert!(Instant::now() < end && self.runs(), "the server does not serve; see {}", self.log().display());
            std::thread::sleep(POLL);
        }
    }

    fn runs(&self) -> bool {
        let mut child = self.child.lock().expect("no panic");
        child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// In read-only mode too. A port with TLS is only asked whether it is open.
    fn serves(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("localhost", self.port)) else { return false };
        if self.secure {
            return true;
        }
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let mut answer = String::new();
        stream.write_all(b"srvr").is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains("Mode:")
    }

    pub fn stop(&self) {
        let Some(mut child) = self.child.lock().expect("no panic").take() else { return };
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let end = Instant::now() + STOP_TIME_MAX;
        while Instant::now() < end {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    fn log(&self) -> PathBuf {
        self.home.join("log")
    }

    /// What the server writes from now on.
    pub fn stdout(&self) -> LogStream {
        let from = fs::metadata(self.log()).map_or(0, |file| file.len() as usize);
        LogStream { file: self.log(), from }
    }
}

impl<I> Drop for Container<'_, I> {
    fn drop(&mut self) {
        self.stop();
        // Kept after a failure: the caller removes the temporary folder as a whole.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.home);
        }
    }
}

pub struct LogStream {
    file: PathBuf,
    from: usize,
}

impl LogStream {
    pub fn wait_for_message(self, message: &str) -> Result<(), String> {
        let end = Instant::now() + MESSAGE_TIME_MAX;
        while Instant::now() < end {
            let bytes = fs::read(&self.file).unwrap_or_default();
            if String::from_utf8_lossy(bytes.get(self.from..).unwrap_or_default()).contains(message) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(format!("`{message}` does not appear in {}", self.file.display()))
    }
}
