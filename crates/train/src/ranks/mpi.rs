//! Ranks that are processes of an MPI job: `mpirun -n 4 conifer train c.toml`.

use std::mem::ManuallyDrop;

use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives};

use super::{Communicator, Ranks};
use crate::error::{Error, Result};

/// An MPI session. Only the thread that starts it may use its ranks.
pub struct MpiSession {
    /// Not dropped when the thread panics: `MPI_Finalize` would wait for the other ranks, which wait for this one.
    universe: ManuallyDrop<Universe>,
}

impl MpiSession {
    /// Starts MPI.
    ///
    /// # Errors
    /// [`Error::Invalid`] if MPI was started before in this process.
    pub fn start() -> Result<Self> {
        // `Funneled`: other threads compute, and only this one communicates.
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, _) =
            started.ok_or_else(|| Error::invalid("MPI", "started already", "one start in a process"))?;
        Ok(Self { universe: ManuallyDrop::new(universe) })
    }

    /// All processes of the job.
    pub fn ranks(&self) -> Ranks {
        Ranks::new(MpiRanks)
    }

    /// Ends MPI. Every rank calls it.
    pub fn finish(self) {
        drop(ManuallyDrop::into_inner(self.universe));
    }

    /// Ends the processes of all ranks at once, after an error that the other ranks do not notice.
    pub fn abort(&self) -> ! {
        self.universe.world().abort(1)
    }
}

/// The processes of the job (`MPI_COMM_WORLD`).
struct MpiRanks;

impl Communicator for MpiRanks {
    fn rank(&self) -> usize {
        usize::try_from(SimpleCommunicator::world().rank()).unwrap_or_default()
    }

    fn size(&self) -> usize {
        usize::try_from(SimpleCommunicator::world().size()).unwrap_or(1)
    }

    fn all_gather(&self, mine: &[u8]) -> Vec<u8> {
        let mut all = vec![0; mine.len() * self.size()];
        if !mine.is_empty() {
            SimpleCommunicator::world().all_gather_into(mine, &mut all[..]);
        }
        all
    }

    fn all_to_all(&self, mine: &[u8]) -> Vec<u8> {
        let mut received = vec![0; mine.len()];
        if !mine.is_empty() {
            SimpleCommunicator::world().all_to_all_into(mine, &mut received[..]);
        }
        received
    }
}
