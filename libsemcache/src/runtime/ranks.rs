//! The rank of this process among those that an MPI launcher has started on this machine.

/// A process among those of its job on one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Local {
    /// Its rank, from 0.
    pub(crate) rank: usize,
    /// Number of ranks on this machine.
    pub(crate) of: usize,
}

/// Environment variables of launchers: rank and number of ranks on the machine. Open MPI, MPICH and Intel MPI, MVAPICH,
/// PALS, Flux, Slurm.
const LAUNCHERS: [(&str, &str); 7] = [
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("FLUX_TASK_LOCAL_ID", "FLUX_TASK_LOCAL_SIZE"),
    ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
];

/// Environment variables in which launchers name the job: PMIx (Open MPI 5), Open MPI 4, Intel MPI, PALS, Flux, Slurm.
const JOBS: [&str; 6] = [
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PMI_JOBID",
    "PALS_APID",
    "FLUX_JOB_ID",
    "SLURM_STEP_ID",
];

/// The name of the job of which this process is a rank on this machine, if it is one. Launchers that name none (MPICH's) start
/// all ranks of a machine from one process, `parent`.
pub(crate) fn job(lookup: &dyn Fn(&str) -> Option<String>, parent: &str) -> Option<String> {
    of(lookup)?;
    let named = JOBS.into_iter().find_map(|name| {
        let job = lookup(name).filter(|job| !job.trim().is_empty())?;
        // Slurm numbers the steps of each job.
        let of = (name == "SLURM_STEP_ID").then(|| lookup("SLURM_JOB_ID"));
        Some(format!("job {job} {}", of.flatten().unwrap_or_default()))
    });
    let job = named.unwrap_or_else(|| format!("job of process {parent}"));
    Some(job.trim_end().to_owned())
}

/// Settings of libraries that use network adapters, by which they register memory for each message. Otherwise they keep registrations, and
/// learn from their own hooks of `munmap` and its kin when memory goes; the system calls by which the library's heap gives memory back
/// do not come by there. For UCX, libfabric and Open MPI.
pub const WITHOUT_KEPT_REGISTRATIONS: [(&str, &str); 3] = [
    ("UCX_MEM_EVENTS", "n"),
    ("FI_MR_CACHE_MONITOR", "disabled"),
    ("OMPI_MCA_mpi_leave_pinned", "0"),
];

/// Whether an MPI launcher has started this process.
#[must_use]
pub fn has_launcher(lookup: &dyn Fn(&str) -> Option<String>) -> bool {
    LAUNCHERS.iter().any(|(rank, _)| lookup(rank).is_some())
}

/// This process among those of its job on this machine; none if it is the only one, or if no launcher says.
pub(crate) fn of(lookup: &dyn Fn(&str) -> Option<String>) -> Option<Local> {
    LAUNCHERS.into_iter().find_map(|(rank, of)| {
        let rank = lookup(rank)?.trim().parse().ok()?;
        // Slurm writes "4(x2),3".
        let of: String = lookup(of)?
            .trim()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let of = of.parse().ok()?;
        (of > 1 && rank < of).then_some(Local { rank, of })
    })
}

impl Local {
    /// The rank's part of `all` devices: neighbouring devices if there are more devices than ranks, else one device
    /// that it shares.
    pub(crate) fn share<T: Clone>(self, all: &[T]) -> Vec<T> {
        let n = all.len();
        if n == 0 {
            return Vec::new();
        }
        if n <= self.of {
            return vec![all[self.rank % n].clone()];
        }
        all[self.rank * n / self.of..(self.rank + 1) * n / self.of].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Option<Local> {
        of(&|name| {
            let found = pairs.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn launchers_are_understood() {
        let of = |rank, of| Some(Local { rank, of });
        assert_eq!(with(&[]), None);
        let lookup = |name: &str| (name == "PMI_LOCAL_RANK").then(|| "0".to_owned());
        assert!(has_launcher(&lookup) && !has_launcher(&|_| None));
        for (rank, size) in LAUNCHERS {
            assert_eq!(with(&[(rank, "3"), (size, "4")]), of(3, 4));
            assert_eq!(with(&[(rank, "0"), (size, "1")]), None);
            assert_eq!(with(&[(rank, "4"), (size, "4")]), None);
            assert_eq!(with(&[(rank, "3")]), None);
            assert_eq!(with(&[(rank, "x"), (size, "4")]), None);
        }
        assert_eq!(
            with(&[
                ("SLURM_LOCALID", "2"),
                ("SLURM_STEP_TASKS_PER_NODE", "4(x2),3")
            ]),
            of(2, 4)
        );
        // A launcher that runs under Slurm knows the ranks better than Slurm does.
        assert_eq!(
            with(&[
                ("SLURM_LOCALID", "0"),
                ("SLURM_STEP_TASKS_PER_NODE", "2"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", "5"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "8"),
            ]),
            of(5, 8)
        );
    }

    #[test]
    fn jobs_have_names() {
        let job = |pairs: &[(&str, &str)]| {
            let rank = [("PMI_LOCAL_RANK", "1"), ("PMI_LOCAL_SIZE", "2")];
            let all = || rank.iter().chain(pairs);
            let lookup = |name: &str| {
                let found = all().find(|(n, _)| *n == name);
                found.map(|(_, v)| (*v).to_owned())
            };
            super::job(&lookup, "17 of 4711")
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(super::job(&|_| None, "1"), None);
        assert_eq!(job(&[]), is("job of process 17 of 4711"));
        assert_eq!(
            job(&[("PMIX_NAMESPACE", "prterun-a-1@1")]),
            is("job prterun-a-1@1")
        );
        assert_eq!(
            job(&[("SLURM_STEP_ID", "3"), ("SLURM_JOB_ID", "99")]),
            is("job 3 99")
        );
    }

    #[test]
    fn every_device_has_a_rank_and_every_rank_a_device() {
        for devices in 0..20 {
            let all: Vec<usize> = (0..devices).collect();
            for of in 2..20 {
                let shares: Vec<_> = (0..of).map(|rank| Local { rank, of }.share(&all)).collect();
                let mut given: Vec<usize> = shares.concat();
                assert!(devices == 0 || shares.iter().all(|s| !s.is_empty()));
                given.sort_unstable();
                given.dedup();
                assert_eq!(given, all, "{of} ranks");
            }
        }
    }
}
