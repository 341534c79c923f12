#!/usr/bin/env bash
# Enters the unpacked root file system of an image as a pod of the manifests has it: read-only but for /tmp and /home/ray, which are empty;
# user 1000, no capability and no way to more rights; processes, names, shared memory of its own, and a network with nothing in it
# but loopback. What a pod has beside that, bounds of memory and processor and a filter of system calls, is not here.
# enter.sh DIRECTORY ENVIRONMENT COMMAND [ARGUMENT ...]: ENVIRONMENT is a file of lines NAME=VALUE. As root, on Linux.
set -euo pipefail

if [[ "$1" != --inside ]]; then
    if [[ "$EUID" -ne 0 ]]; then
        echo "an image's root file system can be entered by root alone: run the same by sudo" >&2
        exit 1
    fi
    exec unshare --mount --pid --fork --kill-child --uts --ipc --net -- "$0" --inside "$@"
fi

root="$(realpath "$2")"
mapfile -t environment <"$3"
shift 3

mount --bind "$root" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
# As large as a container's is that nobody has given more.
mount -t tmpfs -o nosuid,nodev,noexec,mode=1777,size=64m tmpfs "$root/dev/shm"
# A runtime gives each container names of its own.
names="$(mktemp)"
printf '127.0.0.1 localhost mirror-ray\n' >"$names"
chmod 644 "$names"
touch "$root/etc/hosts"
mount --bind "$names" "$root/etc/hosts"
rm "$names"
mount -o remount,bind,ro,nosuid,nodev "$root"
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o nosuid,nodev,mode=777 tmpfs "$root/home/ray"

hostname mirror-ray
ip link set lo up
# Both programs behind chroot are the image's.
exec env -i "${environment[@]}" HOME=/home/ray HOSTNAME=mirror-ray \
    chroot "$root" env --chdir=/home/ray \
    setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs -- "$@"
