// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// programs are what the machine has, built outside its namespaces.
type programs struct {
	Dir               string // of the machine's files; its name is also that of the cgroup of all pods
	Containerd        string // directories, for $PATH
	Kubelet           string
	ControllerManager string
	Scheduler         string
	Proxy             string
	Helm              string
	Dnsconfigurer     string
	Images            string // archive of test images
	Release           string // archive of the released image
}

// variable is the environment variable with the programs, in the second process.
const variable = "DNSCONFIGURER_TEST_E2E"

// TestE2E installs and builds programs, and runs the tests on a machine of its own.
func TestE2E(t *testing.T) {
	if text := os.Getenv(variable); text != "" {
		var p programs
		must.Succeed(t, json.Unmarshal([]byte(text), &p))
		testCluster(t, p)
		return
	}
	dir, err := os.MkdirTemp("", "dnsconfigurer-e2e") // short: paths of sockets are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(nodetools.RemoveCgroup("/"+filepath.Base(dir)), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := launch(t, build(t, dir)); err != nil {
		t.Errorf("the tests on the machine: %v", err)
	}
}

// build installs and builds programs, for which it needs the network.
func build(t *testing.T, dir string) programs {
	t.Helper()
	nodetools.Install(t)
	debian.Install(t, "nft", "nftables")
	apiserver.Install(t)
	kubernetes := func(program string) string { return process.BuildTool(t, "test/cluster", program) }
	p := programs{
		Dir:               dir,
		Containerd:        nodetools.BuildContainerd(t),
		Kubelet:           kubernetes("kubelet"),
		ControllerManager: kubernetes("kube-controller-manager"),
		Scheduler:         kubernetes("kube-scheduler"),
		Proxy:             kubernetes("kube-proxy"),
		Helm:              process.BuildTool(t, "test/chart", "helm"),
		Images:            nodetools.BuildImages(t, dir),
	}
	p.Dnsconfigurer, p.Release = buildRelease(t, dir)
	return p
}

// buildRelease builds the image for this machine, as `make image` does, and returns the paths
// of its program and of the image. It uses a clone, in which Go finds the version.
func buildRelease(t *testing.T, dir string) (program, image string) {
	t.Helper()
	clone, out := filepath.Join(t.TempDir(), "clone"), filepath.Join(dir, "release")
	run(t, "git", "clone", "--quiet", "../..", clone)
	run(t, "go", "-C", filepath.Join(clone, "release"), "run", ".", "-out", out, "-platforms", "linux/"+runtime.GOARCH, "image")
	return filepath.Join(out, "binaries", "dnsconfigurer-linux-"+runtime.GOARCH), filepath.Join(out, "image.tar")
}

// run runs a program outside the machine.
func run(t *testing.T, program string, args ...string) {
	t.Helper()
	begin := time.Now()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	since(t, cmd.String(), begin)
}

// enter prepares the namespaces and runs its arguments. Files that programs write outside
// their own directories go to /run and /var. The node's uplink leads nowhere.
const enter = `mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /var/log
mount --bind "$DIR/etc" /etc
` + nodetools.CopyKernelSettings + `echo ` + nodeName + ` >/proc/sys/kernel/hostname
ip link set lo up
ip link add uplink type veth peer name nowhere
ip link set nowhere up
ip link set uplink up
ip addr add ` + nodeIP + `/24 dev uplink
ip addr add ` + nodeIP6 + `/64 dev uplink nodad
ip addr add ` + outside + `/32 dev lo
ip route add default via 192.0.2.254 dev uplink
ip route add default via fd00:192::fe dev uplink
exec "$@"
`

// launch runs TestE2E in a process with namespaces of its own. The process is the first
// of its namespace: when it ends, the kernel ends all others.
func launch(t *testing.T, p programs) error {
	for name, text := range etc {
		path := filepath.Join(p.Dir, "etc", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	described, err := json.Marshal(p)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, subtests, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	args := []string{"-ec", enter, "sh", self, "-test.run=^TestE2E$/" + subtests,
		"-test.v=" + flag.Lookup("test.v").Value.String()}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+(time.Until(deadline)-10*time.Second).String())
	}
	cmd := exec.Command("sh", args...)
	cmd.Env = append(os.Environ(), variable+"="+string(described), "DIR="+p.Dir, "PATH="+p.Containerd+":"+os.Getenv("PATH"),
		"TMPDIR=/run", "GOPROXY=off")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(relay(os.Stdout, out), cmd.Wait())
}

// relay copies the output of the second process, without the lines about TestE2E itself,
// which the first process writes, too.
func relay(w io.Writer, r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		text := strings.TrimLeft(strings.TrimSpace(line), "\x16") // marks events for test2json
		name, _, _ := strings.Cut(text, " (")
		switch name {
		case "=== RUN   TestE2E", "--- PASS: TestE2E", "--- FAIL: TestE2E", "PASS", "FAIL":
		default:
			fmt.Fprint(w, line)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
