//! The processes of a command: those of an MPI job, or this one alone.

use anyhow::Result;
use conifer_train::Error;
use conifer_train::ranks::Ranks;

/// The MPI job of this process. Without MPI, the process is the only rank of its job.
pub(crate) struct Job {
    #[cfg(feature = "mpi")]
    session: Option<conifer_train::ranks::mpi::MpiSession>,
}

impl Job {
    /// Starts MPI if a launcher (`mpirun`, `srun`) started several processes. `what` names the work in messages.
    ///
    /// # Errors
    /// MPI cannot start. Or there are several processes and this build has no MPI, so each would do the whole work.
    #[cfg(feature = "mpi")]
    pub(crate) fn join(_what: &str) -> Result<Self> {
        let session = launched().map(|_| conifer_train::ranks::mpi::MpiSession::start()).transpose()?;
        Ok(Self { session })
    }

    #[cfg(not(feature = "mpi"))]
    pub(crate) fn join(what: &str) -> Result<Self> {
        match launched() {
            Some(Launched { rank, size }) if size != Some(1) => {
                let processes = size.map_or("several processes".to_owned(), |size| format!("{size} processes"));
                let message = format!(
                    "{what} in {processes}: this build of conifer has no MPI; expected one process, or a build with it: \
                     cargo build --release --features mpi (docs/scale.md)"
                );
                Err(Error::Ranks { rank, message }.into())
            }
            _ => Ok(Self {}),
        }
    }

    /// All processes of the job.
    pub(crate) fn ranks(&self) -> Ranks {
        #[cfg(feature = "mpi")]
        if let Some(session) = &self.session {
            return session.ranks();
        }
        Ranks::default()
    }

    /// Ends the job of all ranks with `result`. If only this rank has an error, the other ranks would wait for it
    /// forever, so the whole job is aborted.
    pub(crate) fn finish(self, result: Result<()>) -> Result<()> {
        #[cfg(feature = "mpi")]
        if let Some(session) = self.session {
            let ranks = session.ranks();
            match &result {
                Err(error) if ranks.size() > 1 && agreed(error).is_none() => {
                    crate::output::note(&format!("error: rank {} of {}: {error:#}", ranks.rank(), ranks.size()));
                    session.abort();
                }
                _ => session.finish(),
            }
        }
        result
    }
}

/// True if rank 0 reports this error.
pub(crate) fn is_reported_by_rank_0(error: &anyhow::Error) -> bool {
    agreed(error).is_some_and(|rank| rank > 0)
}

/// The rank that returns an error which all ranks know.
fn agreed(error: &anyhow::Error) -> Option<usize> {
    error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(Error::Ranks { rank, .. }) => Some(*rank),
        _ => None,
    })
}

/// Rank and number of ranks, from the environment variables of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launched {
    #[cfg_attr(feature = "mpi", allow(dead_code, reason = "MPI itself knows the rank"))]
    rank: usize,
    /// `None` if the launcher sets only the rank.
    #[cfg_attr(feature = "mpi", allow(dead_code, reason = "MPI itself knows the size"))]
    size: Option<usize>,
}

/// `None` if no launcher of MPI started this process.
fn launched() -> Option<Launched> {
    launched_by(&|name| std::env::var(name).ok()?.parse().ok())
}

/// Reads the variables of Open MPI, of MPICH and Slurm (PMI), and of PMIx.
fn launched_by(variable: &dyn Fn(&str) -> Option<usize>) -> Option<Launched> {
    let launchers = [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
    ];
    launchers.into_iter().find_map(|(rank, size)| Some(Launched { rank: variable(rank)?, size: variable(size) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_recognised_by_its_variables() {
        let found = |set: &[(&str, usize)]| {
            let set = set.to_vec();
            launched_by(&move |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
        };
        let launched = |rank, size| Some(Launched { rank, size });
        assert_eq!(found(&[("OMPI_COMM_WORLD_RANK", 1), ("OMPI_COMM_WORLD_SIZE", 4)]), launched(1, Some(4)));
        assert_eq!(found(&[("PMI_RANK", 0), ("PMI_SIZE", 2), ("SLURM_STEP_NUM_TASKS", 2)]), launched(0, Some(2)));
        assert_eq!(found(&[("PMIX_RANK", 3), ("SLURM_STEP_NUM_TASKS", 8)]), launched(3, Some(8)));
        assert_eq!(found(&[("PMIX_RANK", 3)]), launched(3, None));
        // A batch script that Slurm starts, without srun.
        assert_eq!(found(&[("SLURM_NTASKS", 8), ("SLURM_PROCID", 0)]), None);
    }
}
