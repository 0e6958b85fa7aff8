//! `cavalcade worker`: one rank of a run that is coordinated elsewhere.

use super::input;
use crate::arguments::ConfigArguments;
use crate::exit;
use crate::place;
use anyhow::{Context, Result};
use cavalcade::{Dataset, Place, serve_rank};

pub(crate) fn run(arguments: &ConfigArguments) -> Result<u8> {
    let config = input::config(arguments)?;
    let place = place::from_environment()?
        .context("RANK is not set: a launcher sets it, or you do when starting a rank by hand")?;
    let (_, meter) = input::meter();
    let data = Dataset::read(&config)?;
    let place = Place {
        rank: place.rank,
        world_size: place.world_size,
        master: place.master,
        secret: place.secret,
        bind: config.launch.bind,
        join_timeout: config.launch.join_timeout,
    };
    serve_rank(&config, &data, &place, meter)?;
    Ok(exit::OK)
}
