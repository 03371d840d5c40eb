//! Data planes, and which one a switch gets.

mod packets;

pub(crate) use packets::PacketPlane;

use crate::Result;
use crate::application::{Application, PlaneChoice};
use crate::data_plane::DataPlane;

/// The plane that the application wants, or the best that this machine and these rights allow.
pub(crate) fn open(application: &Application) -> Result<Box<dyn DataPlane>> {
    let slower = match application.plane {
        PlaneChoice::Fastest => "there is no data plane in the kernel for it",
        PlaneChoice::Packets => "it was asked for",
    };
    Ok(Box::new(PacketPlane::new(Some(slower.to_owned()))?))
}
