//! Compiles `proto/admin.proto` with protox, so that no protoc is needed on the machine.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/admin.proto");
    let descriptors = protox::compile(["proto/admin.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
