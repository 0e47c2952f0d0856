// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	kep = "clusterFirstWithAutopath" // as KEP-2009 has it
	api = "ClusterFirstWithAutopath" // as the API's own policies are written
)

// autopath returns the stored form of a pod with the autopath policy and these annotations.
func autopath(annotations map[string]string) pod {
	all := map[string]string{"dnsconfigurer.dev/policy": "ClusterFirstWithAutopath", "dnsconfigurer.dev/policy-from": "dnsPolicy"}
	maps.Copy(all, annotations)
	return pod{"ClusterFirstWithHostNet", all}
}

// TestAPIServerAutopath is the life of objects that ask for autopath by dnsPolicy, in
// the hands of a real kubectl.
func TestAPIServerAutopath(t *testing.T) {
	s := startAutopath(t)
	t.Run("applied", s.applied)
	t.Run("left alone", s.leftAlone)
	t.Run("changed", s.changed)
	t.Run("managers", s.managers)
	t.Run("fixed", s.fixed)
	t.Run("unknown", s.unknown)
}

// TestAPIServerAutopathOldest is the oldest API that takes the policy.
func TestAPIServerAutopathOldest(t *testing.T) {
	s := startAutopath(t, "--emulated-version=1.36")
	yaml := manifests(t, kinds, pod{policy: kep})
	s.run(t, "default", yaml, "apply", "-f", "-")
	s.expect(t, "default", yaml, autopath(nil))
}

// startAutopath runs a control plane that has the policy and heeds it.
func startAutopath(t *testing.T, flags ...string) *autopathTest {
	t.Helper()
	policies := must.Get(os.ReadFile("../../deploy/autopath/policy.yaml"))(t)
	s := &autopathTest{kubectl: apiserver.Start(t, flags...).Kubectl(t)}
	s.namespace(t, "default")
	s.kubectl.Enforce(t, string(policies), manifests(t, kinds[:1], pod{policy: kep}),
		func(v apiserver.Verdict) bool { return v.Refused == "" })
	return s
}

type autopathTest struct{ kubectl *apiserver.Kubectl }

// run has kubectl do what must succeed, in the namespace.
func (s *autopathTest) run(t *testing.T, namespace, stdin string, args ...string) string {
	t.Helper()
	return s.kubectl.MustRun(t, stdin, append(args, "--namespace="+namespace)...)
}

// namespace makes a namespace with what its controller would make, and pods need.
func (s *autopathTest) namespace(t *testing.T, name string) {
	t.Helper()
	if name != "default" {
		s.run(t, name, "", "create", "namespace", name)
	}
	s.run(t, name, "", "create", "serviceaccount", "default")
}

// expect compares what is stored of the objects of manifests, and returns their versions.
func (s *autopathTest) expect(t *testing.T, namespace, manifests string, want pod) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, o := range objects(t, s.run(t, namespace, manifests, "get", "-f", "-", "-o", "json")) {
		name := o.GetKind() + " " + o.GetName()
		versions[name] = o.GetResourceVersion()
		if diff := cmp.Diff(want, podOf(o), cmp.AllowUnexported(pod{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if want := 1 + strings.Count(manifests, separator); len(versions) != want {
		t.Fatalf("%d objects, want %d", len(versions), want)
	}
	return versions
}

// applied is the everyday life of the KEP's YAML: applied again it changes nothing, also
// after others have changed other things.
func (s *autopathTest) applied(t *testing.T) {
	for name, flags := range map[string][]string{"by-the-client": nil, "by-the-server": {"--server-side"}} {
		for spelling, policy := range map[string]string{"kep": kep, "api": api} {
			t.Run(name+"-"+spelling, func(t *testing.T) {
				t.Parallel()
				namespace := name + "-" + spelling
				s.namespace(t, namespace)
				yaml := manifests(t, kinds, pod{policy: policy})
				apply := append([]string{"apply", "-f", "-"}, flags...)
				var versions map[string]string
				for i := range 3 {
					s.run(t, namespace, yaml, apply...)
					was := versions
					versions = s.expect(t, namespace, yaml, autopath(nil))
					// A Job is written once more by the first patch, whatever it says.
					if i == 2 && !maps.Equal(was, versions) {
						t.Errorf("applied again, it is written again: (-was +is)\n%s", cmp.Diff(was, versions))
					}
				}
				s.run(t, namespace, yaml, "label", "-f", "-", "touched=yes")
				s.run(t, namespace, "", "scale", "deployments", "--all", "--replicas=2")
				s.run(t, namespace, "", "debug", "pod-network", "--image=registry.example/debug:1")
				s.run(t, namespace, "", "patch", "pod", "host-network", "--subresource=status", "--patch", `{"status":{"phase":"Running"}}`)
				// kubectl diff fails when there is a difference.
				if out := s.run(t, namespace, yaml, append([]string{"diff", "-f", "-"}, flags...)...); out != "" {
					t.Errorf("differs:\n%s", out)
				}
				s.run(t, namespace, yaml, apply...)
				s.expect(t, namespace, yaml, autopath(nil))
			})
		}
	}
}

// leftAlone is who does not ask by dnsPolicy.
func (s *autopathTest) leftAlone(t *testing.T) {
	mine := map[string]string{"dnsconfigurer.dev/policy": api, "team": "shop"}
	for namespace, p := range map[string]pod{
		"default-policy": {policy: "Default"},
		"cluster-first":  {policy: "ClusterFirst", annotations: map[string]string{"team": "shop"}},
		"host-net":       {policy: "ClusterFirstWithHostNet"},
		"none":           {policy: "None"},
		"by-annotation":  {policy: "ClusterFirst", annotations: mine},
	} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			s.namespace(t, namespace)
			for range 2 {
				s.run(t, namespace, manifests(t, kinds, p), "apply", "-f", "-")
				s.expect(t, namespace, manifests(t, kinds, p), p)
			}
		})
	}
}

// story is a template whose author changes his mind.
type story struct {
	name     string
	replaces bool // also when he replaces it
	steps    []step
}

type step struct{ send, want pod }

func stories() []story {
	team := map[string]string{"team": "shop"}
	his := map[string]string{"dnsconfigurer.dev/policy": api}
	other := map[string]string{"dnsconfigurer.dev/policy": "Default"}
	return []story{
		{"on-and-off", true, []step{
			{pod{policy: "ClusterFirst"}, pod{policy: "ClusterFirst"}},
			{pod{policy: kep}, autopath(nil)},
			{pod{policy: "ClusterFirst"}, pod{policy: "ClusterFirst"}},
			{pod{policy: api}, autopath(nil)},
			{pod{}, pod{policy: "ClusterFirst"}}, // the line is taken out
			{pod{policy: kep}, autopath(nil)},
			{pod{policy: "Default"}, pod{policy: "Default"}},
			{pod{policy: kep}, autopath(nil)},
			{pod{policy: "None"}, pod{policy: "None"}},
		}},
		{"annotations", true, []step{
			{pod{kep, team}, autopath(team)},
			{pod{"Default", team}, pod{"Default", team}},
			{pod{kep, team}, autopath(team)},
		}},
		{"his-own-annotation", true, []step{
			{pod{kep, his}, pod{"ClusterFirstWithHostNet", his}},
			{pod{"Default", his}, pod{"Default", his}},
			{pod{kep, other}, pod{"ClusterFirstWithHostNet", other}},
			{pod{policy: "ClusterFirst"}, pod{policy: "ClusterFirst"}},
		}},
		// These two cannot be distinguished from other cases: docs/dns.md.
		{"to-what-is-stored", false, []step{
			{pod{policy: kep}, autopath(nil)},
			{pod{policy: "ClusterFirstWithHostNet"}, autopath(nil)},
		}},
		{"to-his-own-annotation", false, []step{
			{pod{policy: kep}, autopath(nil)},
			{pod{"ClusterFirst", his}, pod{policy: "ClusterFirst"}},
			{pod{"ClusterFirst", his}, pod{"ClusterFirst", his}},
		}},
	}
}

// changed tells the stories in each way that kubectl has.
func (s *autopathTest) changed(t *testing.T) {
	for name, command := range map[string][]string{
		"apply": {"apply", "-f", "-"}, "server-side": {"apply", "--server-side", "-f", "-"}, "replace": {"replace", "-f", "-"},
	} {
		for _, story := range stories() {
			if name == "replace" && !story.replaces {
				continue
			}
			t.Run(name+" "+story.name, func(t *testing.T) {
				t.Parallel()
				namespace := name + "-" + story.name
				s.namespace(t, namespace)
				for i, step := range story.steps {
					sent := manifests(t, templates(), step.send)
					if i == 0 && name == "replace" {
						s.run(t, namespace, sent, "create", "-f", "-")
					} else {
						s.run(t, namespace, sent, command...)
					}
					s.expect(t, namespace, sent, step.want)
					if t.Failed() {
						t.Fatalf("step %d", i+1)
					}
				}
			})
		}
	}
}

// managers tests the conflict that docs/dns.md describes: another field manager, or
// another way, sends a value that differs from the stored one. --force-conflicts moves the
// field, and the annotation has no conflict.
func (s *autopathTest) managers(t *testing.T) {
	deployments := slices.DeleteFunc(templates(), func(k kind) bool { return k.name != "Deployment" })
	serverSide := func(flags ...string) []string { return append([]string{"apply", "--server-side", "-f", "-"}, flags...) }
	for name, steps := range map[string][2][]string{
		"applied":  {{"apply", "-f", "-"}, serverSide()},
		"created":  {{"create", "-f", "-"}, serverSide()},
		"another":  {serverSide("--field-manager=a"), serverSide("--field-manager=b")},
		"compared": {{"apply", "-f", "-"}, {"diff", "--server-side", "-f", "-"}},
	} {
		for policy, p := range map[string]pod{
			"kep": {policy: kep}, "other": {policy: "ClusterFirst"},
			"annotation": {annotations: map[string]string{"dnsconfigurer.dev/policy": api}},
		} {
			namespace := name + "-" + policy
			s.namespace(t, namespace)
			yaml := manifests(t, deployments, p)
			s.run(t, namespace, yaml, steps[0]...)
			_, _, err := s.kubectl.Run(t.Context(), yaml, append(slices.Clone(steps[1]), "--namespace="+namespace)...)
			conflict := err != nil && strings.Contains(err.Error(), ".spec.template.spec.dnsPolicy")
			if conflict != (policy == "kep") {
				t.Errorf("%s: %v", namespace, err)
			}
			if conflict && name != "compared" {
				s.run(t, namespace, yaml, append(steps[1], "--force-conflicts")...)
				s.expect(t, namespace, yaml, autopath(nil))
			}
		}
	}
}

// fixed tests running pods and Jobs, whose policy the API server does not let change.
func (s *autopathTest) fixed(t *testing.T) {
	for namespace, c := range map[string]struct{ stored, sent, want pod }{
		"turned-on":  {pod{policy: "ClusterFirst"}, pod{policy: kep}, pod{policy: "ClusterFirst"}},
		"turned-off": {pod{policy: kep}, pod{policy: "ClusterFirst"}, autopath(nil)},
	} {
		s.namespace(t, namespace)
		fixed := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !k.fixed })
		stored := manifests(t, fixed, c.stored)
		s.run(t, namespace, stored, "apply", "-f", "-")
		for manifest := range strings.SplitSeq(manifests(t, fixed, c.sent), separator) {
			s.refuses(t, namespace, manifest, "Forbidden: pod updates may not change fields", "field is immutable")
		}
		s.expect(t, namespace, stored, c.want)
	}
}

// unknown tests unknown policies, in every kind, and pods for Windows, which are left alone.
func (s *autopathTest) unknown(t *testing.T) {
	const namespace = "unknown"
	s.namespace(t, namespace)
	for manifest := range strings.SplitSeq(manifests(t, kinds, pod{policy: "Autopath"}), separator) {
		s.refuses(t, namespace, manifest, `dnsPolicy: Unsupported value: "Autopath"`)
	}
	for manifest := range strings.SplitSeq(manifests(t, templates(), pod{policy: kep}), separator) {
		for _, field := range []string{`"os":{"name":"windows"}`, `"nodeSelector":{"kubernetes.io/os":"windows"}`} {
			windows := strings.Replace(manifest, `"hostNetwork":`, field+`,"hostNetwork":`, 1)
			s.refuses(t, namespace, windows, `dnsPolicy: Unsupported value: "clusterFirstWithAutopath"`)
		}
	}
}

// refuses applies what must be refused for one of the reasons.
func (s *autopathTest) refuses(t *testing.T, namespace, manifest string, reasons ...string) {
	t.Helper()
	_, _, err := s.kubectl.Run(t.Context(), manifest, "apply", "-f", "-", "--namespace="+namespace)
	if err == nil || !slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(err.Error(), r) }) {
		t.Errorf("%s:\n%v", manifest, err)
	}
}
