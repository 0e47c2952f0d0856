// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

var update = flag.Bool("update", false, "rewrite the results in testdata: read the diff before committing it")

// nodeScript is an agent with the file of one pod in fake time, with the commands of a script:
//
//	agent POD                 a new agent in mode Generate, which refreshes all files
//	set WORD...               is applied: mode=, refresh=, facts=, server=, domain=, directory=, problem=, panics
//	restart                   another agent with these settings, to which nothing was announced
//	pod POD                   is found from now on: a policy, autopath or overridden (by annotations), and
//	                          server= of its dnsConfig, hostnetwork
//	lookup unknown, lookup waits, lookup fails once
//	sandbox ID UID            is the one that the following commands are about
//	annotate NAME=VALUE       of the sandbox
//	host TEXT, host missing   the host's resolv.conf; a TEXT has a name in texts, or is quoted
//	write TEXT, append TEXT   by the runtime, or later than its creation by the pod; meanwhile TEXT: during the
//	                          next decision
//	link, remove, remove directory, elsewhere (in a directory that is not mounted)
//	start, create, create again, create late, running, announce, reset, synchronized, removed
//	shim [OUTCOME]            running, with what a shim has sent for the request, or that it is not known
//	confirm                   the node facts
//	changed                   the host's file has changed: all files wait
//	refresh CAUSE...          the file; restore POD: the command
//	sleep DURATION
//	pods, queue, facts, count OUTCOME, reads
//
// After each step are the new reports, the file if it has changed, and what the commands return.
type nodeScript struct {
	*refreshTest
	pod            policy.Pod
	lookups        string        // the words of lookup; "": they find pod
	found          chan struct{} // is closed by pod
	server, domain string        // of the cluster
	reads          int           // of the host's file
	meanwhile      string        // what the pod writes during the next one; "": nothing
	file           string        // as it was shown
}

// texts are the texts of files by name.
var texts = map[string]string{
	"kubelet": kubeletText, "host": hostText, "other": otherHost, "cluster": clusterText, "own": ownText, "nothing": "",
	"large":     kubeletText + strings.Repeat("#\n", podfile.MaxSize),
	"forged":    strings.ReplaceAll(clusterText, "10.96.0.10", "203.0.113.9"),
	"new facts": strings.NewReplacer("10.96.0.10", "10.96.0.99", "cluster.local", "new.example").Replace(clusterText),
}

var causes = map[string]cause{"verify": causeVerify, "host": causeHost, "pod": causePod, "settings": causeSettings, "all": causeAll,
	"command": causeCommand}

// TestApplier_Scripts runs the scripts of testdata.
func TestApplier_Scripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playScript(t, archive) })
		})
		if *update {
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func playScript(t *testing.T, archive *txtar.Archive) {
	s := &nodeScript{refreshTest: &refreshTest{applierTest: &applierTest{T: t}}}
	for i := range archive.Files {
		f := &archive.Files[i]
		var got strings.Builder
		for command := range strings.SplitSeq(f.Name, "; ") {
			got.WriteString(s.do(command))
			synctest.Wait()
		}
		got.WriteString(s.news())
		text := strings.NewReplacer(s.directory, "DIR", notSeenAtStart, "; not seen at the start").Replace(got.String())
		if !*update && text != string(f.Data) {
			t.Errorf("%s\n got: %swant: %s", f.Name, text, f.Data)
		}
		f.Data = []byte(text)
	}
}

// do does a command and returns its result.
func (s *nodeScript) do(command string) string {
	s.Helper()
	verb, rest, _ := strings.Cut(command, " ")
	words := strings.Fields(rest)
	if f := s.commands()[verb]; f != nil {
		return f(rest, words)
	}
	events := map[string]func(*podfile.Event){
		"start":        func(e *podfile.Event) { e.Kind = podfile.Started },
		"create":       func(e *podfile.Event) { e.Kind, e.First = podfile.Creating, true },
		"create again": func(e *podfile.Event) { e.Kind = podfile.Creating },
		"create late": func(e *podfile.Event) {
			e.Kind, e.First = podfile.Creating, true
			e.ExpireAfter(-time.Second)
		},
		"running":      func(e *podfile.Event) { e.Kind = podfile.Running },
		"reset":        func(e *podfile.Event) { e.Kind = podfile.Reset },
		"synchronized": func(e *podfile.Event) { e.Kind = podfile.Synchronized },
		"removed":      func(e *podfile.Event) { e.Kind = podfile.Removed },
	}
	if events[command] == nil {
		s.Fatalf("unknown command: %s", command)
	}
	e := podfile.Event{Sandbox: s.applierTest.sandbox, Path: s.path()}
	events[command](&e)
	s.Handle(s.ctx, e)
	return ""
}

// commands returns the functions of commands other than events. They get what follows the command, and its words.
func (s *nodeScript) commands() map[string]func(rest string, words []string) string {
	return map[string]func(string, []string) string{
		"agent":   s.newAgent,
		"set":     s.set,
		"restart": s.restartAgent,
		"pod":     s.setPod,
		"lookup":  func(rest string, _ []string) string { s.lookups, s.found = rest, make(chan struct{}); return "" },
		"sandbox": func(_ string, words []string) string {
			s.applierTest.sandbox = podfile.Sandbox{ID: words[0], Namespace: "shop", Name: "web", UID: words[1]}
			s.file = s.show()
			return ""
		},
		"annotate": func(rest string, _ []string) string {
			name, value, _ := strings.Cut(rest, "=")
			s.applierTest.sandbox.Annotations = map[string]string{"dnsconfigurer.dev/" + name: value}
			return ""
		},
		"host": func(rest string, _ []string) string {
			if s.host = resolvconf.Parse(s.text(rest)); rest == "missing" {
				s.host = resolvconf.File{Err: os.ErrNotExist}
			}
			return ""
		},
		"write":     func(rest string, _ []string) string { s.rewrite(s.text(rest)); return "" },
		"append":    func(rest string, _ []string) string { s.rewrite(string(s.read()) + s.text(rest)); return "" },
		"meanwhile": func(rest string, _ []string) string { s.meanwhile = s.text(rest); return "" },
		"link": func(string, []string) string {
			return result(errors.Join(os.Rename(s.path(), s.path()+".old"), os.Symlink(s.path()+".old", s.path())))
		},
		"elsewhere": func(string, []string) string { s.directory = filepath.Join(s.directory, "absent"); return "" },
		"remove": func(rest string, _ []string) string {
			if rest == "directory" {
				return result(os.RemoveAll(filepath.Dir(s.path())))
			}
			return result(os.Remove(s.path()))
		},
		"announce": func(string, []string) string { return s.do("reset") + s.do("running") + s.do("synchronized") },
		"shim":     s.announceByShim,
		"confirm": func(string, []string) string {
			return fmt.Sprintf("a file waited for it: %t\n", s.facts.confirm(nodeFacts))
		},
		"changed": func(string, []string) string { s.HostChanged(); return "" },
		"refresh": s.refreshFor,
		"restore": func(string, []string) string { return results(s.RestorePods(s.ctx, "shop", "web")) },
		"sleep": func(rest string, _ []string) string {
			d, err := time.ParseDuration(rest)
			time.Sleep(d)
			return result(err)
		},
		"pods": func(string, []string) (text string) {
			for _, p := range s.Pods() {
				text += fmt.Sprintf("%s: %s, drift %q, restored %t, expected %q\n", p.Sandbox, p.Outcome, p.Drift, p.Restored, p.Expected)
			}
			return text
		},
		"queue": func(string, []string) string {
			due, c, _ := s.next()
			if due == nil {
				return "nothing waits\n"
			}
			return fmt.Sprintf("%s waits for %s\n", due.ID, nameOf(causes, c))
		},
		"facts": func(string, []string) string {
			return fmt.Sprintf("confirmed: %t\n", s.facts.covers(1<<policy.FromClusterDNS))
		},
		"count": func(rest string, _ []string) string {
			return fmt.Sprintf("%v\n", testutil.ToFloat64(s.Metrics.outcomes.WithLabelValues(rest)))
		},
		"reads": func(string, []string) string { return fmt.Sprintf("%d reads of the host's file\n", s.reads) },
	}
}

// newAgent returns an agent without sandboxes.
func (s *nodeScript) newAgent(rest string, words []string) string {
	s.refreshTest = &refreshTest{applierTest: newApplierTest(s.T), host: resolvconf.Parse(hostText)}
	s.lookups, s.found, s.file, s.reads, s.server, s.domain = "", nil, "", 0, "10.96.0.10", "cluster.local"
	s.settings.Hook.HostFiles = func() cri.HostFiles {
		if s.reads++; s.meanwhile != "" {
			s.rewrite(s.meanwhile)
			s.meanwhile = ""
		}
		return cri.HostFiles{Pods: s.host, Kubelet: s.host}
	}
	s.settings.Hook.Lookup = s.lookup
	s.setPod(rest, words)
	return s.set("", []string{"refresh=All"})
}

// restartAgent replaces the agent by another process.
func (s *nodeScript) restartAgent(string, []string) string {
	before := s.applierTest
	before.cancel()
	before.Wait()
	next := newApplierTest(s.T)
	next.directory, next.settings, next.sandbox = before.directory, before.settings, before.sandbox
	next.reports, next.refreshes = before.reports, before.refreshes
	s.applierTest = next
	s.apply()
	return ""
}

func (s *nodeScript) setPod(_ string, words []string) string {
	switch words[0] {
	case "autopath":
		s.pod = policy.Pod{Policy: policy.ClusterFirst, Override: policy.ClusterFirstWithAutopath}
	case "overridden":
		s.pod = policy.Pod{Policy: policy.ClusterFirst, Override: policy.Default}
	default:
		s.pod = policy.Pod{Policy: policy.Policy(words[0])}
	}
	for _, w := range words[1:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "server":
			s.pod.Config = &policy.DNSConfig{Nameservers: []string{value}}
		case "hostnetwork":
			s.pod.HostNetwork = true
		default:
			s.Fatalf("unknown word: %s", w)
		}
	}
	if s.lookups = ""; s.found != nil {
		close(s.found)
		s.found = nil
	}
	return ""
}

// lookup is the Lookup of the settings.
func (s *nodeScript) lookup(ctx context.Context, sandbox cri.Sandbox) (policy.Pod, error) {
	switch s.lookups {
	case "unknown":
		return policy.Pod{}, cri.ErrUnknownPod
	case "fails once":
		s.lookups = ""
		return policy.Pod{}, errors.New("the API server is down")
	case "waits":
		select {
		case <-s.found:
		case <-ctx.Done():
			return policy.Pod{}, ctx.Err()
		}
	}
	pod := s.pod
	pod.Namespace, pod.Name, pod.UID = sandbox.Namespace, sandbox.Name, sandbox.UID
	return pod, nil
}

// set changes the settings and applies them.
func (s *nodeScript) set(_ string, words []string) string {
	s.reconfigure(func(settings *Settings) {
		for _, w := range words {
			switch key, value, _ := strings.Cut(w, "="); key {
			case "mode":
				settings.Hook.Mode = cri.Mode(value)
			case "refresh":
				settings.Refresh = Scope(value)
			case "facts":
				settings.Facts = value
			case "server":
				s.server = value
			case "domain":
				s.domain = value
			case "directory":
				settings.Directories = []string{value}
			case "problem":
				if settings.Hook.Problem = nil; value != "" {
					settings.Hook.Problem = errors.New(value)
				}
			case "panics":
				settings.Hook.HostFiles = nil
			default:
				s.Fatalf("unknown word: %s", w)
			}
		}
		settings.Hook.Engine = newEngine(s.T, s.server, s.domain)
	})
	return ""
}

// text returns the text of a name, or the quoted one. "decision" is that for the pod,
// "forgery" has the comments of this program.
func (s *nodeScript) text(name string) string {
	if text, ok := texts[name]; ok || name == "missing" {
		return text
	}
	switch name {
	case "decision":
		return s.request().Decision
	case "forgery":
		return s.forgery()
	}
	text, err := strconv.Unquote(name)
	if err != nil {
		s.Fatalf("unknown text: %s", name)
	}
	return text
}

// forgery returns a text that records the text "forged", with a digest that is right.
func (s *nodeScript) forgery() string {
	other := &refreshTest{applierTest: newApplierTest(s.T)}
	original := texts["forged"]
	other.write(original)
	f, err := podfile.Open([]string{other.directory}, other.applierTest.sandbox.ID, other.path())
	if err == nil {
		err = f.Replace([]byte(original), "nameserver 203.0.113.9\n", []byte(original))
	}
	if err != nil {
		s.Fatal(err)
	}
	return string(other.read())
}

// rewrite creates the file as a runtime does. Another file is written as by a pod, which is later.
func (s *nodeScript) rewrite(text string) {
	if _, err := os.Lstat(s.path()); err != nil {
		s.write(text)
		return
	}
	left := unix.NsecToTimespec(int64(30 * time.Millisecond)) // the kernel's time is not that of the bubble
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) { // by a signal of Go's scheduler
	}
	if err := os.WriteFile(s.path(), []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

// request returns what a shim has done with the request for the pod.
func (s *nodeScript) request() *podfile.Request {
	pod, _ := s.lookup(s.ctx, newSandbox(s.applierTest.sandbox, nil))
	engine := s.settings.Hook.Engine
	d := engine.Decide(pod, s.host)
	pod.Override = ""
	r := &podfile.Request{Outcome: string(cri.Edited), Kubelet: engine.KubeletConfig(pod, s.host).String(), Decision: d.Config().String()}
	if r.Kubelet == r.Decision {
		r.Outcome = string(cri.Unchanged)
	}
	return r
}

func (s *nodeScript) announceByShim(rest string, _ []string) string {
	r := s.request()
	if r.Outcome = cmp.Or(rest, r.Outcome); rest == "unknown" {
		r = &podfile.Request{}
	}
	s.Handle(s.ctx, podfile.Event{Kind: podfile.Running, Sandbox: s.applierTest.sandbox, Path: s.path(), Request: r})
	return ""
}

func (s *nodeScript) refreshFor(_ string, words []string) (text string) {
	for _, w := range words {
		sandbox := s.sandboxes[s.applierTest.sandbox.ID]
		if sandbox == nil {
			return text + "the sandbox is forgotten\n"
		}
		r, detail := s.refresh(sandbox, causes[w])
		text += strings.TrimSpace(fmt.Sprintf("%s: %s %s", w, r, detail)) + "\n"
	}
	return text
}

// news returns the new reports, and the file if it has changed.
func (s *nodeScript) news() (text string) {
	for len(s.reports) > 0 {
		r := <-s.reports
		text += strings.TrimSpace(fmt.Sprintf("report: %s %s", r.Outcome, r.Detail)) + "\n"
	}
	for len(s.refreshes) > 0 {
		r := <-s.refreshes
		text += strings.TrimSpace(fmt.Sprintf("report: %s, drift %q %s", r.Result, r.Drift, r.Detail)) + "\n"
	}
	if file := s.show(); file != s.file {
		s.file = file
		text += file
	}
	return text
}

// show returns the file by the name of its text, or by its contents and the name of the text that they record.
func (s *nodeScript) show() string {
	if info, err := os.Lstat(s.path()); err != nil || !info.Mode().IsRegular() {
		return "the file is missing or a link\n"
	}
	text := s.read()
	if name := nameOf(texts, string(text)); name != "" {
		return "the file has: " + name + "\n"
	}
	shown := []string{"the runtime's", "written", "changed", "restored", "unfinished"}[podfile.OriginOf(text)]
	if original, ok := podfile.Original(text); ok {
		shown += fmt.Sprintf(" over %s", cmp.Or(nameOf(texts, string(original)), strconv.Quote(string(original))))
	}
	config := strings.ReplaceAll(strings.TrimSpace(resolvconf.Parse(string(text)).Config().String()), "\n", ", ")
	return fmt.Sprintf("the file is %s: %s\n", shown, config)
}

// nameOf returns the key of a value, "" if there is none.
func nameOf[V comparable](names map[string]V, value V) string {
	for name, v := range names {
		if v == value {
			return name
		}
	}
	return ""
}

// result returns an error as a result of a command.
func result(err error) string {
	if err == nil {
		return ""
	}
	return err.Error() + "\n"
}

func results(list []v1alpha1.NodeResult, err error) string {
	text := result(err)
	for _, r := range list {
		text += strings.TrimSpace(fmt.Sprintf("%s %s", r.Result, r.Detail)) + "\n"
	}
	return text
}
