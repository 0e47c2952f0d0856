// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// The namespace of the pods, and the name of their container.
const (
	namespace = "shop"
	container = "main"
)

// libraries are the C libraries whose programs each container has.
var libraries = []string{"glibc", "musl"}

// newPod returns a pod with one container.
func newPod(name string, spec corev1.PodSpec) *corev1.Pod {
	second, no := int64(1), false
	spec.TerminationGracePeriodSeconds, spec.AutomountServiceAccountToken, spec.EnableServiceLinks = &second, &no, &no
	spec.Containers = []corev1.Container{{Name: container, Image: nodetools.LibrariesImage, ImagePullPolicy: corev1.PullNever}}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       spec,
	}
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	return must.Get(json.Marshal(object))(t)
}

// create creates pods through the API and returns when they are ready.
func (c *cluster) create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	list := corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	var names []string
	for _, pod := range pods {
		list.Items = append(list.Items, runtime.RawExtension{Raw: encode(t, pod)})
		names = append(names, "pod/"+pod.Name)
	}
	c.apply(t, string(encode(t, list)))
	c.wait(t, "condition=Ready", names...)
}

// apply creates the objects of a manifest, or changes them.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	// On the server: kubectl alone would download the schema of all objects each time.
	c.run(t, manifest, "apply", "--server-side", "--validate=false", "-f", "-")
}

// applyFile creates the objects of a file in testdata.
func (c *cluster) applyFile(t *testing.T, name string) {
	t.Helper()
	c.run(t, "", "apply", "--server-side", "--validate=false", "-f", filepath.Join("testdata", name))
}

// wait waits until objects meet a condition of kubectl wait.
func (c *cluster) wait(t *testing.T, condition string, objects ...string) {
	t.Helper()
	args := append([]string{"wait", "--for=" + condition, "--namespace", namespace, "--timeout", patience.String()}, objects...)
	if _, _, err := c.kubectl.Run(t.Context(), "", args...); err != nil {
		t.Fatalf("%v\n%s", err, c.run(t, "", "get", "pods,events", "--namespace", namespace, "--output", "wide"))
	}
}

// connect returns a connection to a CRI socket, as of a kubelet.
func connect(t *testing.T, socket string) runtimeapi.RuntimeServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return runtimeapi.NewRuntimeServiceClient(conn)
}

// containerID returns the ID of the running container of a pod.
func (c *cluster) containerID(t *testing.T, pod string) (string, error) {
	return c.runningContainer(t, map[string]string{
		"io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.name": pod, "io.kubernetes.container.name": container,
	})
}

// runningContainer returns the ID of the only running container with labels.
func (c *cluster) runningContainer(t *testing.T, labels map[string]string) (string, error) {
	r, err := c.runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: labels,
	}})
	if err == nil && len(r.Containers) != 1 {
		err = fmt.Errorf("%d running containers have the labels %v", len(r.Containers), labels)
	}
	if err != nil {
		return "", err
	}
	return r.Containers[0].Id, nil
}

// tryExec runs a command in a container and returns its output. It needs no API server.
func (c *cluster) tryExec(t *testing.T, pod string, command ...string) (string, error) {
	id, err := c.containerID(t, pod)
	if err != nil {
		return "", err
	}
	r, err := c.runtime.ExecSync(t.Context(),
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(patience.Seconds())})
	if err == nil && r.ExitCode != 0 {
		err = errors.New("exit code " + fmt.Sprint(r.ExitCode))
	}
	if err != nil {
		return "", fmt.Errorf("%q in %s: %w\n%s%s", command, pod, err, r.GetStdout(), r.GetStderr())
	}
	return strings.TrimSpace(string(r.Stdout)), nil
}

// exec is tryExec for a command that succeeds.
func (c *cluster) exec(t *testing.T, pod string, command ...string) string {
	t.Helper()
	return must.Get(c.tryExec(t, pod, command...))(t)
}

// lookUp looks up names in a pod with a C library. The results, by name, are the sorted addresses of
// both families, or the name of the error.
func (c *cluster) lookUp(t *testing.T, pod, library string, names ...string) (map[string]string, error) {
	out, err := c.tryExec(t, pod, append([]string{"/bin/" + library + "-ask", "each", "0"}, names...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(out) { // the name, the microseconds, and the result
		words := strings.Fields(line)
		if len(words) > 3 && words[2] == "error" {
			words = []string{words[0], "", "error " + strings.TrimSuffix(words[3], ":")}
		}
		found[words[0]] = strings.Join(slices.Sorted(slices.Values(words[2:])), " ")
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("%s-ask %q in %s: unexpected output %q", library, names, pod, out)
	}
	return found, nil
}
