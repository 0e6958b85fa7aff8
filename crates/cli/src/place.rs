//! Where this process stands in a run: read from the environment, as launchers set it.

use anyhow::{Context, Result, bail};
use cavalcade::{Rank, Secret};
use std::env::var;
use std::net::{SocketAddr, ToSocketAddrs};

/// What `torchrun`-style launchers say.
pub(crate) struct Place {
    pub(crate) rank: Rank,
    pub(crate) world_size: usize,
    pub(crate) master: SocketAddr,
    pub(crate) secret: Secret,
}

/// The place, if `RANK` is set.
pub(crate) fn from_environment() -> Result<Option<Place>> {
    if var("RANK").is_err() {
        return Ok(None);
    }
    let rank: u32 = number("RANK")?;
    let world_size: usize = number("WORLD_SIZE")?;
    if rank as usize >= world_size {
        bail!("RANK={rank} but WORLD_SIZE={world_size}: ranks are 0..{world_size}");
    }
    let host = var("MASTER_ADDR").ok().context("MASTER_ADDR is not set: the address of rank 0")?;
    let port: u16 = number("MASTER_PORT")?;
    let master = (host.as_str(), port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .with_context(|| format!("MASTER_ADDR={host} is no address and no name of a host"))?;
    Ok(Some(Place { rank: Rank(rank), world_size, master, secret: secret()? }))
}

fn number<T: std::str::FromStr>(name: &str) -> Result<T> {
    let text = var(name).ok().with_context(|| format!("{name} is not set; a launcher sets it"))?;
    text.parse().ok().with_context(|| format!("{name}={text} is not a number that fits"))
}

pub(crate) fn secret() -> Result<Secret> {
    let text = match var("CAVALCADE_SECRET_FILE") {
        Ok(path) => std::fs::read_to_string(&path)
            .with_context(|| format!("CAVALCADE_SECRET_FILE={path} cannot be read"))?,
        Err(_) => var("CAVALCADE_SECRET").ok().context(
            "neither CAVALCADE_SECRET_FILE nor CAVALCADE_SECRET is set: all ranks of a run share \
             64 hexadecimal digits, such as those of `openssl rand -hex 32`",
        )?,
    };
    text.trim().parse().ok().context("the run's secret is not 64 hexadecimal digits")
}
