//! Data planes, and which one a switch gets.

mod cache;
mod packets;

pub(crate) use cache::CachePlane;
pub(crate) use packets::PacketPlane;

use crate::Result;
use crate::application::{Application, PlaneChoice};
use crate::data_plane::DataPlane;

/// The plane that the application wants, or the best that this machine and these rights allow.
pub(crate) fn open(application: &Application) -> Result<Box<dyn DataPlane>> {
    let slower = match application.plane {
        PlaneChoice::Fastest => match CachePlane::open(application.waiting) {
            Ok(plane) => return Ok(Box::new(plane)),
            Err(missing) => missing.to_string(),
        },
        PlaneChoice::Packets => "it was asked for".to_owned(),
    };
    Ok(Box::new(PacketPlane::new(Some(slower))?))
}
