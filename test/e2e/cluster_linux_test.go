// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// cluster is a control plane, and this machine as its node.
type cluster struct {
	programs
	api     *apiserver.Cluster
	kubectl *apiserver.Kubectl

	containerd, shim, kubelet *process.Process
	runtime                   runtimeapi.RuntimeServiceClient // behind the shim

	chart string // directory of what install installs
	image string // setting of the chart, such as "image.tag=v1"
	names int    // outside the cluster that the command doctor has queried
}

// Files of a kubeadm node, as deploy/systemd expects them.
const (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	nodeIdentity  = "/etc/kubernetes/kubelet.conf"
	adminIdentity = "/etc/kubernetes/admin.conf"
	manifests     = "/etc/kubernetes/manifests"
	shimConfig    = "/etc/dnsconfigurer/shim.yaml"
	proxyConfig   = "/etc/kubernetes/proxy.yaml"
	resolvConf    = "/run/systemd/resolve/resolv.conf"

	shimSocket       = "/run/dnsconfigurer/shim.sock"
	containerdSocket = "/run/containerd/containerd.sock"
)

// nodeFiles are the configuration of the node.
var nodeFiles = map[string]string{
	resolvConf: hostResolvConf,
	kubeletConfig: nodetools.KubeletConfiguration + `
clusterDNS: [` + dnsIP + `]
clusterDomain: cluster.local
resolvConf: ` + resolvConf + `
staticPodPath: ` + manifests + `
containerRuntimeEndpoint: unix://` + containerdSocket + `
address: 0.0.0.0
volumePluginDir: /var/lib/kubelet/plugins
serializeImagePulls: false
`,
	proxyConfig: `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: ` + adminIdentity + `}
mode: nftables
hostnameOverride: ` + nodeName + `
clusterCIDR: 10.244.0.0/24,fd00:244::/64
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`,
}

// tokens are the users of the API server.
const tokens = `admin,admin,admin,system:masters
node,system:node:` + nodeName + `,node,system:nodes
`

// startCluster returns when the node is ready for pods. All ends with the process.
func startCluster(t *testing.T, p programs) *cluster {
	t.Helper()
	c := &cluster{programs: p}
	c.serveOutside(t)
	c.startContainerd(t)
	c.startControlPlane(t)
	c.writeNodeFiles(t)
	c.shim, c.runtime = c.newShim(t), connect(t, shimSocket)
	c.kubelet = c.newProcess(p.Kubelet, "--config="+kubeletConfig, "--kubeconfig="+nodeIdentity,
		"--node-ip="+nodeIP+","+nodeIP6, kubeletFlags(t))
	start(t, c.shim, c.kubelet)
	c.run(t, "", "wait", "--for=create", "node/"+nodeName, "--timeout="+patience.String())
	start(t, c.newProcess(p.Proxy, "--config="+proxyConfig))
	c.run(t, "", "wait", "--for=condition=Ready", "node/"+nodeName, "--timeout="+patience.String())
	return c
}

// newProcess returns a program of the machine with a log of its name.
func (c *cluster) newProcess(program string, args ...string) *process.Process {
	return &process.Process{Program: program, Args: args, LogFile: filepath.Join("/var/log", filepath.Base(program)+".log")}
}

// start starts servers. Their logs are part of a failed test.
func start(t *testing.T, processes ...*process.Process) {
	t.Helper()
	for _, p := range processes {
		must.Succeed(t, p.Start())
		logFailure(t, p)
	}
}

// logFailure adds the end of the log of a process to a failed test.
func logFailure(t *testing.T, p *process.Process) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", p.LogFile, p.Log())
		}
	})
}

func (c *cluster) startContainerd(t *testing.T) {
	t.Helper()
	c.containerd = c.newProcess("containerd", "--config=/etc/containerd/config.toml")
	program := must.Get(exec.LookPath(c.containerd.Program))(t)
	c.containerd.Program = program
	start(t, c.containerd)
	for _, archive := range []string{c.Images, c.Release} {
		await(t, "import of images", func() error {
			out, err := exec.Command("ctr", "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
}

// startControlPlane starts the control plane. Only kube-apiserver is ready when it
// returns.
func (c *cluster) startControlPlane(t *testing.T) {
	t.Helper()
	users := filepath.Join(c.Dir, "tokens.csv")
	must.Succeed(t, os.WriteFile(users, []byte(tokens), 0o600))
	c.api = apiserver.Start(t, "--bind-address=::", "--advertise-address="+nodeIP, "--token-auth-file="+users,
		"--kubelet-preferred-address-types=InternalIP")
	c.kubectl = c.api.Kubectl(t)
	_, port, err := net.SplitHostPort(c.api.Address())
	if err != nil {
		t.Fatal(err)
	}
	admin := must.Get(c.api.Kubeconfig(net.JoinHostPort(nodeIP, port), ""))(t)
	writeFile(t, adminIdentity, admin)
	writeFile(t, nodeIdentity, strings.Replace(admin, "token: admin", "token: node", 1))
	start(t,
		// A node without heartbeats, as after an outage or on a busy machine, would lose the
		// endpoints of its pods.
		c.newProcess(c.ControllerManager, "--kubeconfig="+adminIdentity, "--leader-elect=false", "--node-monitor-grace-period=1h",
			"--service-account-private-key-file="+c.api.ServiceAccountKey(), "--root-ca-file="+c.api.Authority()),
		c.newProcess(c.Scheduler, "--kubeconfig="+adminIdentity, "--leader-elect=false"))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
}

func (c *cluster) writeNodeFiles(t *testing.T) {
	t.Helper()
	cgroup := "/" + filepath.Base(c.Dir)
	must.Succeed(t, errors.Join(nodetools.MakeCgroup(cgroup), os.MkdirAll(manifests, 0o755)))
	for path, text := range nodeFiles {
		writeFile(t, path, strings.ReplaceAll(text, "CGROUP", cgroup))
	}
	writeFile(t, shimConfig,
		regexp.MustCompile(`(?m)^mode: .*|^  nodeName: .*`).ReplaceAllStringFunc(deployed(t, "shim.yaml"), func(line string) string {
			if strings.HasPrefix(line, "mode") {
				return "mode: Generate"
			}
			return "  nodeName: " + nodeName
		})+"\nautopath: {nodeCache: "+nodeCache+"}\n"+
			// On a busy machine a pod may take more than the second that the shim waits for it.
			"onUnknownPod: Fail\n")
}

// deployed returns a file of deploy/systemd.
func deployed(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join("../../deploy/systemd", name)))(t))
}

// setting returns the value of a setting in a unit.
func setting(t *testing.T, unit, name string) string {
	t.Helper()
	for line := range strings.Lines(deployed(t, unit)) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("%s has no %s", unit, name)
	return ""
}

// newShim returns the shim with the command line and the directories of its unit.
func (c *cluster) newShim(t *testing.T) *process.Process {
	t.Helper()
	for _, dir := range []string{"/run/dnsconfigurer", "/var/lib/dnsconfigurer"} {
		must.Succeed(t, os.MkdirAll(dir, 0o700))
	}
	p := c.newProcess(c.Dnsconfigurer, strings.Fields(setting(t, "dnsconfigurer-shim.service", "ExecStart"))[1:]...)
	p.LogFile = "/var/log/shim.log"
	return p
}

// kubeletFlags returns the flag with which the drop-in leads the kubelet to the shim.
func kubeletFlags(t *testing.T) string {
	t.Helper()
	_, flags, _ := strings.Cut(setting(t, "kubelet.service.d/20-dnsconfigurer.conf", "Environment"), "=")
	return flags
}

// outsideRecords are the names outside the cluster.
const outsideRecords = `
www.example.com.       300 IN A 198.51.100.1
www.example.com.       300 IN AAAA 2001:db8::1
intranet.corp.example. 300 IN A 198.51.100.2
hosted.node.example.   300 IN A 198.51.100.3
*.names.example.com.   300 IN A 198.51.100.4
`

// serveOutside runs the DNS server of names outside the cluster.
func (c *cluster) serveOutside(t *testing.T) {
	t.Helper()
	address := net.JoinHostPort(outside, "53")
	udp, err1 := net.ListenPacket("udp", address)
	tcp, err2 := net.Listen("tcp", address)
	must.Succeed(t, errors.Join(err1, err2))
	server := dnstest.Serve(udp, tcp, dnstest.Reply(dnstest.Records(t, outsideRecords)))
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}

// run runs kubectl and returns its output.
func (c *cluster) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, _, err := c.kubectl.Run(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// since logs how long a step took.
func since(t *testing.T, what string, begin time.Time) {
	t.Helper()
	t.Logf("%s took %v", what, time.Since(begin).Round(100*time.Millisecond))
}
