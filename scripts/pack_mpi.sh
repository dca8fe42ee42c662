# How Debian's Open MPI travels to a machine without MPI. Sourced; needs setting.sh.
#
# packed_mpi DIR: mpirun and what it and programs need on one machine, into DIR. There `. DIR/env.sh` makes it the MPI of the shell,
# wherever DIR is; without network, ssh, other machines and MPI's own files.

# What there is one of for each of Open MPI's frameworks on one machine, or what it asks to choose from.
PACKED_MPI_PLUGINS=(allocator_basic allocator_bucket bml_r2 btl_self btl_vader coll_basic coll_inter coll_libnbc coll_self coll_tuned
    crs_none errmgr_default_app errmgr_default_hnp errmgr_default_orted ess_env ess_hnp ess_pmi ess_singleton filem_raw grpcomm_direct
    iof_hnp iof_orted mpool_hugepage odls_default oob_tcp op_avx osc_pt2pt osc_rdma osc_sm patcher_overwrite plm_isolated pmix_ext3x pml_ob1
    pstat_linux rcache_grdma reachable_weighted regx_fwd regx_naive regx_reverse rmaps_ppr rmaps_round_robin rml_oob routed_binomial
    routed_direct routed_radix rtc_hwloc schizo_ompi schizo_orte shmem_mmap shmem_posix shmem_sysv state_app state_hnp state_novm
    state_orted topo_basic)
PACKED_MPI_LIBRARIES=(libmpi.so.40 libopen-rte.so.40 libopen-pal.so.40 libmca_common_sm.so.40 libhwloc.so.15 libevent_core-2.1.so.7
    libevent_pthreads-2.1.so.7 libpmix.so.2 libmunge.so.2 libudev.so.1 libz.so.1)

packed_mpi() {
    local from=/usr/lib/x86_64-linux-gnu to=$1 name file lacking
    rm -rf "${to:?}"
    mkdir -p "$to"/{bin,etc,lib/openmpi3,lib/pmix,lib/hwloc,share/openmpi}
    cp -L /usr/bin/mpirun.openmpi "$to/bin/mpirun"
    cp -L /usr/bin/orted "$to/bin/"
    for name in "${PACKED_MPI_LIBRARIES[@]}"; do cp -L "$from/$name" "$to/lib/"; done
    for name in "${PACKED_MPI_PLUGINS[@]}"; do cp "$from/openmpi/lib/openmpi3/mca_$name.so" "$to/lib/openmpi3/"; done
    cp "$from"/pmix2/lib/pmix/pmix_mca_{pcompress_zlib,prm_default}.so "$to/lib/pmix/"
    for name in orterun orte-runtime orte-rmaps-base orte-odls-default orte-odls-base opal-runtime opal-shmem-mmap mpi-runtime mpi-errors \
        mpi-api mpi-btl-base btl-vader mca-base mca-var mca-bml-r2 errmgr-base ess-base hostfile plm-base oob-base oob-tcp pmix-base \
        opal-hwloc-base; do
        cp "/usr/share/openmpi/help-$name.txt" "$to/share/openmpi/"
    done
    find "$to/bin" "$to/lib" -type f -exec strip {} +
    cat >"$to/env.sh" <<'END'
# Sourced by bash: the Open MPI in this folder. One machine; ranks may use all its cores, also when they are more than these.
OPAL_PREFIX=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OPAL_PREFIX OPAL_BINDIR=$OPAL_PREFIX/bin OPAL_LIBDIR=$OPAL_PREFIX/lib OPAL_PKGLIBDIR=$OPAL_PREFIX/lib/openmpi3
export OPAL_DATADIR=$OPAL_PREFIX/share OPAL_PKGDATADIR=$OPAL_PREFIX/share/openmpi OPAL_SYSCONFDIR=$OPAL_PREFIX/etc
export PMIX_MCA_mca_base_component_path=$OPAL_PREFIX/lib/pmix HWLOC_PLUGINS_PATH=$OPAL_PREFIX/lib/hwloc
export PATH=$OPAL_PREFIX/bin:$PATH LD_LIBRARY_PATH=$OPAL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
END
    # What lies there needs nothing that it lacks, but glibc.
    for file in "$to"/bin/* "$to"/lib/*.so.* "$to"/lib/*/*.so; do
        lacking=$(objdump -p "$file" | awk '$1 == "NEEDED" && $2 !~ /^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so/ { print $2 }' |
            while read -r name; do [ -e "$to/lib/$name" ] || echo "$name"; done)
        [ -z "$lacking" ] || fail "$file needs $lacking"
    done
}
