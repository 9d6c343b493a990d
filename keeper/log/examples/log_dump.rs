//! Prints what the log in a member's data folder holds. The member must not run.

use keeper_log::{RealDisk, inspect};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1).filter(|folder| std::path::Path::new(folder).is_dir()) else {
        return Err(std::io::Error::other("name the data folder of a member"));
    };
    inspect(&RealDisk::open(folder)?, &mut |line| println!("{line}")).await
}
