# The first process of a node: builds the node's own view of the file system inside its fresh namespaces, starts sshd
# and then only reaps. Arguments: FOLDER (the node's, on this machine), FS (upper, work and root of the overlay), HOMES,
# HOSTNAME, SSHD.
set -eu
folder=$1 fs=$2 homes=$3 hostname=$4 sshd=$5

read -r stat </proc/self/stat # /proc is still this machine's: the pid as seen from outside
echo "$stat" >"$folder/init"
echo "$hostname" >/proc/sys/kernel/hostname

root=$fs/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$fs/upper,workdir=$fs/work" "$root"
mount -t proc proc "$root/proc"
mount --bind "$folder/boot_id" "$root/proc/sys/kernel/random/boot_id"
mount -t sysfs sysfs "$root/sys" || :
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mount -t tmpfs -o mode=0700 tmpfs "$root/root"
mount --bind "$homes" "$root/home"
mount --bind "$folder/gpu" "$root/var/lib/lab-gpu"
mkdir -p "$root/run/sshd" "$root/run/lock"
chmod 1777 "$root/run/lock"

cd "$root"
pivot_root . .
umount -l .
cd /
"$sshd" -E /var/log/sshd.log
while :; do
    tail -f /dev/null & # an orphan that ends is reaped by this wait; a tail is nobody's job, see nvidia-smi.sh
    wait $! || :
done
