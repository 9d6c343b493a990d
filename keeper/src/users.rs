//! The users of SASL on disk: a file, or a folder with a file per user as Kubernetes mounts a Secret. Read at the
//! start, where a fault ends the process, and again when something changes, where a fault leaves the users as they
//! were and is logged.

use anyhow::{Context, Result, bail};
use keeper_server::auth::SharedUsers;
use keeper_server::sasl::Users;
use keeper_server::sasl::limits::{PASSWORD_BYTES_MAX, USERS_FILE_BYTES_MAX, USERS_MAX};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the source is read again. By content: a mounted Secret changes by symbolic links, and modification
/// times can stay the same.
const PERIOD: Duration = Duration::from_secs(5);

/// Reads the users, and keeps them as they are on disk from now on.
pub fn follow(source: &Path) -> Result<SharedUsers> {
    let users = read(source).with_context(|| format!("auth.sasl_users_file: {}", source.display()))?;
    tracing::info!(source = %source.display(), users = users.len(), "users of SASL read");
    let shared = SharedUsers::new(users);
    keeper_rt::spawn("sasl-users", keep(source.to_owned(), shared.clone(), PERIOD));
    Ok(shared)
}

async fn keep(source: PathBuf, shared: SharedUsers, period: Duration) {
    let mut complaint = String::new();
    loop {
        keeper_rt::sleep(period).await;
        let path = source.clone();
        let Ok(outcome) = keeper_rt::blocking(move || read(&path)).await else { return };
        match outcome {
            Ok(users) => {
                complaint.clear();
                if users != *shared.get() {
                    tracing::info!(source = %source.display(), users = users.len(), "users of SASL have changed");
                    shared.set(users);
                }
            }
            // Once for each fault, not at every look.
            Err(error) if format!("{error:#}") != complaint => {
                complaint = format!("{error:#}");
                tracing::error!(source = %source.display(), error = complaint, "users of SASL stay as they were");
            }
            Err(_) => {}
        }
    }
}

fn read(source: &Path) -> Result<Users> {
    let users = if source.is_dir() {
        read_folder(source)?
    } else {
        Users::parse(&text(source, USERS_FILE_BYTES_MAX)?)?
    };
    // More likely a file that is just being written than a wish to lock everybody out.
    if users.is_empty() {
        bail!("there is no user in it");
    }
    Ok(users)
}

fn read_folder(source: &Path) -> Result<Users> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).context("cannot list the folder")? {
        let entry = entry.context("cannot list the folder")?;
        let name = entry.file_name();
        let name = name.to_str().with_context(|| format!("the name {name:?} is not UTF-8"))?;
        // Kubernetes keeps the versions of a Secret in folders that begin with dots.
        if name.starts_with('.') || !entry.path().is_file() {
            continue;
        }
        if files.len() == USERS_MAX {
            bail!("more than {USERS_MAX} files");
        }
        files.push((name.to_owned(), text(&entry.path(), PASSWORD_BYTES_MAX + 2)?));
    }
    Ok(Users::from_files(files.iter().map(|(user, password)| (user.as_str(), password.as_str())))?)
}

fn text(file: &Path, bytes_max: usize) -> Result<String> {
    let mut text = String::new();
    let name = || format!("cannot read {}", file.display());
    let opened = File::open(file).with_context(name)?;
    opened.take(bytes_max as u64 + 1).read_to_string(&mut text).with_context(name)?;
    if text.len() > bytes_max {
        bail!("{} has more than {bytes_max} bytes", file.display());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_a_folder_of_a_secret_holds_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, "bob:secret\n").unwrap();
        assert_eq!(read(&file).unwrap().password("bob"), Some("secret"));

        // As Kubernetes mounts it: the files are links through `..data`.
        let secret = folder.path().join("secret");
        std::fs::create_dir_all(secret.join("..1")).unwrap();
        std::fs::write(secret.join("..1/ann"), "p\n").unwrap();
        std::os::unix::fs::symlink("..1", secret.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/ann", secret.join("ann")).unwrap();
        let users = read(&secret).unwrap();
        assert_eq!((users.len(), users.password("ann")), (1, Some("p")));

        std::fs::write(&file, "# nobody").unwrap();
        assert!(read(&file).is_err());
        let error = format!("{:#}", read(&folder.path().join("nothing")).unwrap_err());
        assert!(error.contains("cannot read") && error.contains("nothing"), "{error}");
        std::fs::write(secret.join("big"), "p".repeat(PASSWORD_BYTES_MAX + 3)).unwrap();
        assert!(format!("{:#}", read(&secret).unwrap_err()).contains("more than"));
    }

    #[tokio::test]
    async fn a_change_on_disk_is_taken_over_and_a_fault_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, "bob:one").unwrap();
        let shared = SharedUsers::new(read(&file).unwrap());
        keeper_rt::spawn("keep", keep(file.clone(), shared.clone(), Duration::from_millis(5)));
        std::fs::write(&file, "no user at all").unwrap();
        keeper_rt::sleep(Duration::from_millis(50)).await;
        assert_eq!(shared.get().password("bob"), Some("one"));
        std::fs::write(&file, "bob:two").unwrap();
        let deadline = keeper_rt::now() + Duration::from_secs(20);
        while shared.get().password("bob") != Some("two") {
            assert!(keeper_rt::now() < deadline, "the change was not taken over");
            keeper_rt::sleep(Duration::from_millis(5)).await;
        }
    }
}
