// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

const (
	// containerPrefix is the beginning of the name of an ephemeral container.
	containerPrefix = "dnsconfigurer-doctor-"

	// maxContainers is the number of ephemeral containers of a pod with the prefix. None can be
	// removed, and each is a part of every later write of the pod.
	maxContainers = 10

	// containerPause is the time between two reads of the pod while the container runs.
	containerPause = 500 * time.Millisecond

	// maxLog is the size of a log; longer logs are cut. 112 queries with two attempts each
	// have 56 KiB.
	maxLog = 128 << 10

	// maxFile is the size of a resolv.conf: eight times the longest of a kubelet.
	maxFile = 32 << 10

	// containerUser is the user of the image, by its number: the pod may have another default.
	containerUser = 65532
)

// podRun is a run of the command in a container that is added to a pod.
type podRun struct {
	api       rest.Interface
	namespace string
	pod       string
	uid       types.UID // of the pod when it was read first; "": not read yet
	container string    // "": none was added; it may have been if the request had no reply
}

// errGone is the error of a pod that ended, also if another one has its name now, as those of a StatefulSet: the
// container has ended, too.
var errGone = errors.New("the pod is gone, or was replaced by another one with this name: run doctor again")

// containerReport is what the container has found.
type containerReport struct {
	file   *string // the resolv.conf of the pod; nil: it could not be read
	probes []v1alpha1.DoctorProbe
}

// runContainer has a container in the pod of the scope send the queries of a plan, and read the resolv.conf. It sets
// the containers of s. failure is empty if all queries were sent.
func runContainer(ctx context.Context, c Config, s *doctor.Snapshot, plan []doctor.Query) (report containerReport, failure string) {
	cfg := rest.CopyConfig(c.API)
	cluster.LimitReplies(cfg, defaultLimits().page)
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		return containerReport{}, err.Error()
	}
	r := podRun{api: api, namespace: s.Scope.Namespace, pod: s.Scope.PodName}
	report, err = r.run(ctx, c.Image, plan)
	s.Container = r.container
	if err != nil {
		failure = fmt.Sprintf("pod %s/%s: %v", r.namespace, r.pod, err)
		if ctx.Err() != nil {
			failure += ": set --timeout"
		}
	}
	return report, failure
}

// run adds the container, waits for its end, and returns what it has found.
func (r *podRun) run(ctx context.Context, image string, plan []doctor.Query) (none containerReport, err error) {
	pod, err := r.read(ctx)
	if err != nil {
		return none, err
	}
	if err := refuse(pod); err != nil {
		return none, err
	}
	if err := r.add(ctx, image, plan); err != nil {
		return none, fmt.Errorf("adding an ephemeral container: %w", err)
	}
	end, err := r.wait(ctx)
	if err != nil {
		err = fmt.Errorf("ephemeral container %s: %w", r.container, err)
		if errors.Is(err, errGone) {
			r.container = "" // it ended with its pod
		}
		return none, err
	}
	text, err := r.log(ctx)
	switch {
	case end.ExitCode != 0:
		return none, fmt.Errorf("ephemeral container %s: exit code %d: %s", r.container, end.ExitCode,
			cmp.Or(string(bytes.TrimSpace(text)), end.Message, end.Reason))
	case err != nil:
		return none, fmt.Errorf("log of the ephemeral container %s: %w", r.container, err)
	}
	return readReport(text, plan)
}

// read returns the pod, the same each time. It lists, which the command may do in any case.
func (r *podRun) read(ctx context.Context) (*corev1.Pod, error) {
	var list corev1.PodList
	err := r.api.Get().Namespace(r.namespace).Resource("pods").
		Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", r.pod).String()).Do(ctx).Into(&list)
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 || r.uid != "" && list.Items[0].UID != r.uid {
		return nil, errGone
	}
	r.uid = list.Items[0].UID
	return &list.Items[0], nil
}

// refuse returns why a container in the pod would not show what the pod reaches, or not start.
func refuse(p *corev1.Pod) error {
	added := 0
	for _, c := range p.Spec.EphemeralContainers {
		if strings.HasPrefix(c.Name, containerPrefix) {
			added++
		}
	}
	switch {
	case p.DeletionTimestamp != nil:
		return errors.New("it is being deleted")
	case p.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("its phase is %s: want Running", p.Status.Phase)
	case kube.IsWindows(&p.Spec):
		return errors.New("it is a Windows pod, and the image is for Linux")
	case p.Spec.HostNetwork:
		return errors.New("it has the network of its node: run doctor on the node")
	case added >= maxContainers:
		return fmt.Errorf("it has %d ephemeral containers of earlier runs: delete the pod, or choose another one", added)
	}
	return nil
}

// add adds the container. The API server refuses to change the UID, and so the patch of another pod. A request
// without a reply may have added it.
func (r *podRun) add(ctx context.Context, image string, plan []doctor.Query) error {
	name := containerPrefix + strings.ToLower(rand.Text()[:5])
	c := ephemeralContainer(name, image, plan)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.uid},
		"spec":     map[string]any{"ephemeralContainers": []corev1.EphemeralContainer{c}},
	})
	if err != nil {
		return err
	}
	err = r.api.Patch(types.StrategicMergePatchType).Namespace(r.namespace).Resource("pods").Name(r.pod).
		SubResource("ephemeralcontainers").Body(patch).Do(ctx).Error()
	var status apierrors.APIStatus
	if isRefused := errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError; err == nil || !isRefused {
		r.container = name // also without a reply
	}
	return err
}

// ephemeralContainer returns a container that sends the queries. It conforms to the level restricted
// of the Pod Security Standards.
func ephemeralContainer(name, image string, plan []doctor.Query) corev1.EphemeralContainer {
	args := []string{"doctor", "query"}
	for _, q := range plan {
		args = append(args, q.String())
	}
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: name, Image: image, Args: args,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(containerUser)), RunAsGroup: new(int64(containerUser)),
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}
}

// neverStarts are the reasons of a container that waits and that no later attempt starts. ErrImagePull
// is missing: one failure of a registry passes.
var neverStarts = []string{
	"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
}

func (r *podRun) wait(ctx context.Context) (*corev1.ContainerStateTerminated, error) {
	state := corev1.ContainerState{}
	for {
		pod, err := r.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the time was over: %s", describe(state))
		case err != nil:
			return nil, err
		}
		state = r.state(pod)
		switch {
		case state.Terminated != nil:
			return state.Terminated, nil
		case pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil:
			return nil, errors.New("the pod ended before it")
		case state.Waiting != nil && slices.Contains(neverStarts, state.Waiting.Reason):
			return nil, errors.New(describe(state))
		}
		select {
		case <-ctx.Done():
		case <-time.After(containerPause):
		}
	}
}

// describe returns what is known of a container that has not ended.
func describe(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "it is running"
	case s.Waiting != nil:
		return "it is waiting: " + s.Waiting.Reason + ": " + s.Waiting.Message
	}
	return "it has not started"
}

// state returns the state of the container; the zero value: the kubelet has not reported one.
func (r *podRun) state(p *corev1.Pod) corev1.ContainerState {
	for _, status := range p.Status.EphemeralContainerStatuses {
		if status.Name == r.container {
			return status.State
		}
	}
	return corev1.ContainerState{}
}

func (r *podRun) log(ctx context.Context) ([]byte, error) {
	body, err := r.api.Get().Namespace(r.namespace).Resource("pods").Name(r.pod).SubResource("log").
		Param("container", r.container).Param("limitBytes", fmt.Sprint(maxLog+1)).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxLog+1))
	if err == nil && len(text) > maxLog {
		err = fmt.Errorf("more than %d bytes", maxLog)
	}
	return text, err
}

// ContainerFile is the first line that the container writes: the resolv.conf of the pod.
type ContainerFile struct {
	ResolvConf *string `json:"resolvConf"` // nil: it could not be read
}

// ReadFile reads the resolv.conf of the container.
func ReadFile(path string) ContainerFile {
	text, err := atomicfile.ReadRegular(path, maxFile)
	if err != nil {
		return ContainerFile{}
	}
	return ContainerFile{ResolvConf: new(string(text))}
}

// readReport returns what a log has: the file, and the queries, one a line. The image and the node control it: what
// was not asked is an error.
func readReport(text []byte, plan []doctor.Query) (none containerReport, err error) {
	planned, sent := map[string]doctor.Query{}, map[string]int{}
	for _, q := range plan {
		planned[q.String()] = q
	}
	lines := json.NewDecoder(bytes.NewReader(text))
	const question = "is this the image of dnsconfigurer?"
	invalid := func(err error) error {
		return fmt.Errorf("the log of the container has an invalid line: %s %w", question, err)
	}
	var file ContainerFile
	if err := lines.Decode(&file); err != nil {
		return none, invalid(err)
	}
	report := containerReport{file: file.ResolvConf}
	for {
		var p v1alpha1.DoctorProbe
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return none, invalid(err)
		}
		key := strings.Join([]string{p.Protocol, p.Server, p.Type, p.Name}, ",")
		q, ok := planned[key]
		if sent[key]++; !ok || sent[key] > Attempts || !isPlausible(p) {
			return none, errors.New("the log of the container has a line that is not about its queries: " + question)
		}
		p.Role, p.Means, p.Error = q.Role, q.Means, excerpt.Text(p.Error, excerpt.MaxValue)
		report.probes = append(report.probes, p)
	}
	if len(sent) != len(planned) {
		return none, fmt.Errorf("the log of the container has %d of %d queries", len(sent), len(planned))
	}
	return report, nil
}

// isPlausible reports whether a probe has the values of one that this program would write.
func isPlausible(p v1alpha1.DoctorProbe) bool {
	return (IsRCode(p.RCode) || p.RCode == "" && p.Error != "") && p.StartMicros >= 0 && p.Micros >= 0 &&
		len(p.Answers) <= MaxAnswers && !slices.ContainsFunc(p.Answers, func(text string) bool {
		addr, err := netip.ParseAddr(text)
		return err != nil || addr.Zone() != "" // a zone may be any text
	})
}
