//! Small file systems for members' data folders, and what fills them. Each is unmounted when it is dropped.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::keeper::Plan;

/// Room for a handful of segments and snapshots, and quickly filled.
const VOLUME_MIB: usize = 96;
/// Large writes first, then small ones: to the last block.
const FILL_STEPS: [usize; 3] = [1 << 20, 64 << 10, 4 << 10];

/// A mounted tmpfs with a size, which refuses writes beyond it as any full disk does.
pub struct Volume {
    folder: PathBuf,
}

/// Puts the data folder of each member on a volume of its own. An error where this user may not mount.
pub fn mount_all(plan: &mut Plan) -> Result<Vec<Volume>> {
    ensure!(rustix::process::geteuid().is_root(), "small file systems can only be mounted by root");
    let mut volumes = Vec::new();
    for place in &mut plan.places {
        let volume = Volume::mount(&place.home.join("volume"))?;
        // Not the volume's root: what fills it shall not lie among the member's files.
        place.data = volume.folder.join("data");
        volumes.push(volume);
    }
    Ok(volumes)
}

impl Volume {
    fn mount(folder: &Path) -> Result<Volume> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let size = format!("size={VOLUME_MIB}m,mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "castellan-faults"]).arg(folder);
        run(&mut mount)?;
        Ok(Volume { folder: folder.to_path_buf() })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Takes all room that is free now; the member may give some back later.
    pub fn fill(&self) -> Result<()> {
        let path = self.ballast();
        let context = || format!("cannot fill {}", path.display());
        let mut file = File::options().create(true).append(true).open(&path).with_context(context)?;
        for step in FILL_STEPS {
            let bytes = vec![0xfb; step];
            loop {
                match file.write_all(&bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).with_context(context),
                }
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub fn make_room(&self) -> Result<()> {
        let path = self.ballast();
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(&self.folder)) {
            // A dying member may hold it for a moment: then it goes when that one does.
            let lazily = run(Command::new("umount").arg("--lazy").arg(&self.folder));
            if lazily.is_err() {
                eprintln!("{error:#}: unmount it by hand");
            }
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
