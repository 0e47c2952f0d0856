// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// fill makes the directory $0 with the script $2, unless another process has done so. apt-get
// uses only the source $1, a line of sources.list(5), and does not know which packages the machine
// has: it would download those versions.
const fill = `[ ! -e "$0" ] || exit 0
part=$0.part
rm -rf "$part"
mkdir -p "$part/apt/lists/partial" "$part/apt/cache/archives/partial" "$part/root"
cd "$part"
: >status
echo "$1" >sources.list
cat >apt.conf <<END
Dir::Etc::sourcelist "$part/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$part/apt/lists";
Dir::State::status "$part/status";
Dir::Cache "$part/apt/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
Acquire::Retries "2";
Acquire::http::Timeout "20";
APT::Sandbox::User "root";
END
export APT_CONFIG="$part/apt.conf"
apt-get update
eval "$2"
mv root "$0"
rm -rf "$part"`

// Download returns a directory in the cache of the user with what script, of sh, has put into the
// directory root of its working directory. apt-get there has the packages of source, a line of
// sources.list(5), as of the day of the first call; later calls, also of other processes, run
// nothing. A script that changes needs another name.
func Download(t testing.TB, name, source, script string) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "dnsconfigurer-test", name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	must.Succeed(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	out, err := exec.Command("flock", dir+".lock", "timeout", "300", "sh", "-ec", fill, dir, source, script).CombinedOutput()
	if err != nil {
		t.Fatalf("making %s with packages of Debian: %v\n%s", dir, err, out)
	}
	return dir
}
