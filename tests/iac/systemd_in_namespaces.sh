#!/bin/bash
# Boots a real systemd as the first process of its own namespaces, on a throw-away copy of this
# machine's root: what it installs, starts and writes is gone with it. Needs root and Linux >= 5.
#   systemd_in_namespaces.sh SCRATCH     (an empty folder outside the overlay's reach)
# The network is the host's, so that a test can reach what it serves. End it by killing the caller.
set -euo pipefail
scratch=$1

if [ "${2:-}" != booted ]; then
    exec unshare --fork --kill-child=KILL --pid --mount --uts --ipc --cgroup bash "$0" "$scratch" booted
fi

mount --make-rprivate /
mount -t tmpfs scratch "$scratch"
mkdir "$scratch"/{changes,work,root}
mount -t overlay throwaway -o "lowerdir=/,upperdir=$scratch/changes,workdir=$scratch/work" "$scratch/root"
cd "$scratch/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for node in full null random tty urandom zero; do cp -a "/dev/$node" "dev/$node"; done
mkdir dev/pts dev/shm
ln -s /proc/self/fd dev/fd
mount -t devpts devpts dev/pts

# hardware, network, logins and cleaning of /tmp are the host's business
units=etc/systemd/system
mkdir -p "$units"
for unit in dbus.service dbus.socket getty.target systemd-logind.service systemd-networkd.service \
    systemd-resolved.service systemd-timesyncd.service systemd-tmpfiles-clean.timer \
    systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-udev-trigger.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-update-utmp.service timers.target; do
    ln -sf /dev/null "$units/$unit"
done
printf '%s\n' '[Unit]' 'Requires=basic.target' 'After=basic.target' 'AllowIsolate=yes' \
    >"$units/throwaway.target"

mkdir host
pivot_root . host
umount --lazy host
exec env -i PATH=/usr/sbin:/usr/bin container=throwaway /lib/systemd/systemd --unit=throwaway.target
