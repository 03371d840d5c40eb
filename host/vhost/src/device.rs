//! A card's state: what its front end has set up, request by request (QEMU: docs/interop/vhost-user.rst).
//!
//! Requests come through the `vhost` crate, which parses and checks messages. The port owns the device; it lends it
//! to the handler for each request ([`Desk`]). Invariant: a ring's areas are places in the present memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Mutex;

use rustix::event::epoll::{self, EventData, EventFlags};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error as Wrong, GpuBackend, Result as Answer, VhostUserBackendReqHandlerMut,
};

use crate::features::{Features, OFFERED};
use crate::memory::{Extent, MOST_REGIONS, Memory};
use crate::ring::{BufferDirection, Ring};
use crate::watch::Watch;

/// Most pairs of queues, one from and one to the guest.
pub const MOST_PAIRS: usize = 16;

/// A card.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) features: Features,
    pub(crate) memory: Memory,
    /// Even: to the guest; odd: from it.
    pub(crate) rings: Vec<Ring>,
    /// Rings that may run, with the numbers of pairs: those to the guest, and those from it.
    pub(crate) running: [Vec<usize>; 2],
    watch: Watch,
}

impl Device {
    pub(crate) fn new(watch: Watch) -> Device {
        // VIRTIO 1.3, section 5.1.2: of each pair the first is the receive queue.
        let way = |index| {
            if index % 2 == 0 { BufferDirection::ToGuest } else { BufferDirection::FromGuest }
        };
        Device {
            features: Features::default(),
            memory: Memory::default(),
            rings: (0..2 * MOST_PAIRS).map(|index| Ring::new(way(index))).collect(),
            running: [vec![], vec![]],
            watch,
        }
    }

    /// Forgets everything that a front end has set up.
    pub(crate) fn clear(&mut self) {
        // Closing is not enough: the front end has the same files open, so epoll would keep them
        // (epoll(7)).
        for ring in &self.rings {
            self.watch.forget(ring.kick());
        }
        *self = Device::new(self.watch.clone());
    }

    /// Updates which rings run.
    pub(crate) fn look(&mut self) {
        for side in [0, 1] {
            let runs = |index: &usize| index % 2 == side && self.rings[*index].runs();
            self.running[side] = (0..self.rings.len()).filter(runs).collect();
        }
    }

    /// Enables or disables a queue; false if the request is none.
    pub(crate) fn enable(&mut self, index: u32, num: u32) -> bool {
        let Ok(ring) = self.ring(index) else { return false };
        ring.enable(num == 1);
        self.look();
        num <= 1
    }

    fn ring(&mut self, index: u32) -> Answer<&mut Ring> {
        let index = usize::try_from(index).map_err(|_| Wrong::InvalidParam)?;
        self.rings.get_mut(index).ok_or(Wrong::InvalidParam)
    }

    /// Places all rings in new memory. One that is not in it does not run.
    fn place(&mut self) {
        for ring in &mut self.rings {
            let _ = ring.place(&self.memory);
        }
    }
}

fn refused(why: &'static str) -> Wrong {
    Wrong::ReqHandlerError(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Where the handler finds the device during a request.
#[derive(Debug, Default)]
pub(crate) struct Desk(pub(crate) Option<Device>);

/// The desk, as the handler shares it with the port.
pub(crate) type SharedDesk = Mutex<Desk>;

impl Desk {
    fn device(&mut self) -> Answer<&mut Device> {
        self.0.as_mut().ok_or(Wrong::InvalidOperation("no device"))
    }
}

impl VhostUserBackendReqHandlerMut for Desk {
    fn set_owner(&mut self) -> Answer<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Answer<()> {
        self.device().map(Device::clear)
    }

    fn reset_device(&mut self) -> Answer<()> {
        self.device().map(Device::clear)
    }

    fn get_features(&mut self) -> Answer<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Answer<()> {
        let device = self.device()?;
        let features = Features::accepted(features).ok_or(refused("features never offered"))?;
        device.features = features;
        for ring in &mut device.rings {
            ring.set_features(features);
            // Without VHOST_USER_F_PROTOCOL_FEATURES a ring starts enabled (vhost-user.rst).
            if !features.enables_queues() {
                ring.enable(true);
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Answer<Option<Vec<VhostUserMemoryRegionBase>>> {
        let device = self.device()?;
        // Beside the present one, which stays if a region is refused.
        let mut memory = Memory::default();
        for (region, file) in table.iter().zip(files) {
            let at = Extent {
                guest: region.guest_phys_addr,
                user: region.user_addr,
                size: region.memory_size,
                offset: region.mmap_offset,
            };
            memory.add(at, file).ok_or(refused("a region of memory that cannot be mapped"))?;
        }
        device.memory = memory;
        device.place();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Answer<()> {
        self.device()?.ring(index)?.set_size(num).ok_or(refused("no size of a queue"))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Answer<()> {
        // The flags and the last address are about logging, which is not offered.
        let device = self.device()?;
        // Out of the device for a moment, since the ring is borrowed from it.
        let memory = std::mem::take(&mut device.memory);
        let placed = match device.ring(index) {
            _ if memory.is_empty() => Err(refused("a queue before the memory that it is in")),
            Ok(ring) => ring
                .set_addresses([descriptor, available, used], &memory)
                .ok_or(refused("a queue outside of memory")),
            Err(wrong) => Err(wrong),
        };
        device.memory = memory;
        placed
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Answer<()> {
        let base = u16::try_from(base).map_err(|_| refused("no index of a queue"))?;
        self.device()?.ring(index)?.set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Answer<VhostUserVringState> {
        let device = self.device()?;
        let watch = device.watch.clone();
        let ring = device.ring(index)?;
        watch.forget(ring.kick());
        // This request also stops the ring (vhost-user.rst).
        let next = ring.stop();
        Ok(VhostUserVringState::new(index, next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Answer<()> {
        let device = self.device()?;
        let watch = device.watch.clone();
        let ring = device.ring(index.into())?;
        watch.forget(ring.kick());
        if let Some(kick) = &fd {
            let kind = EventData::new_u64(u64::from(index));
            epoll::add(&watch, kick.as_fd(), kind, EventFlags::IN | EventFlags::ET)
                .map_err(|e| Wrong::ReqHandlerError(e.into()))?;
        }
        ring.set_kick(fd);
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Answer<()> {
        self.device()?.ring(index.into())?.set_call(fd);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Answer<()> {
        self.device()?.ring(index.into())?.set_error(fd);
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Answer<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _: u64) -> Answer<()> {
        // The crate keeps to them, and nothing here depends on one.
        Ok(())
    }

    fn get_queue_num(&mut self) -> Answer<u64> {
        Ok(MOST_PAIRS as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Answer<()> {
        self.device()?.ring(index)?.enable(enable);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Answer<u64> {
        Ok(MOST_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        fd: File,
        _: Option<bool>,
    ) -> Answer<Option<VhostUserMemoryRegionBase>> {
        let device = self.device()?;
        let at = Extent {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            size: region.memory_size,
            offset: region.mmap_offset,
        };
        device.memory.add(at, fd).ok_or(refused("a region of memory that cannot be mapped"))?;
        device.place();
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Answer<()> {
        let device = self.device()?;
        let (guest, user, size) = (region.guest_phys_addr, region.user_addr, region.memory_size);
        device.memory.remove(guest, user, size).ok_or(refused("no such region of memory"))?;
        device.place();
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Answer<Vec<u8>> {
        Err(refused("the front end has the configuration"))
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Answer<()> {
        Err(refused("the front end has the configuration"))
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Answer<()> {
        Err(refused("not offered"))
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Answer<File> {
        Err(refused("not offered"))
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Answer<(VhostUserInflight, File)> {
        Err(refused("not offered"))
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Answer<()> {
        Err(refused("not offered"))
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Answer<Option<File>> {
        Err(refused("not offered"))
    }

    fn check_device_state(&mut self) -> Answer<()> {
        Err(refused("not offered"))
    }

    fn get_shmem_config(&mut self) -> Answer<VhostUserShMemConfig> {
        Err(refused("not offered"))
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Answer<()> {
        Err(refused("not offered"))
    }
}
