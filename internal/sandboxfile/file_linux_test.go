// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	sandbox  = "5e1f"
	firstDNS = "nameserver 169.254.20.10\nsearch search.shop.cluster.local.ap.k8s.io\noptions ndots:5\n"
	otherDNS = "nameserver 10.96.0.10\nsearch shop.svc.cluster.local\noptions ndots:2\n"
)

// newFile writes the kubelet's text into a file as containerd has it, below directory.
func newFile(t *testing.T, directory, text string) (path string) {
	t.Helper()
	path = filepath.Join(directory, sandbox, "resolv.conf")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

func openFile(t *testing.T, directory, path string) *File {
	t.Helper()
	f, err := Open([]string{"/nonexistent", directory}, sandbox, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestReplace(t *testing.T) {
	directory := t.TempDir()
	path := newFile(t, directory, kubeletText)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f := openFile(t, directory, path)
	for _, dns := range []string{firstDNS, otherDNS} {
		old, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Replace(old, dns, []byte(kubeletText)), f.Touch()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !parsesAs(text, dns) || OriginOf(text) != Written {
			t.Errorf("%v, the file:\n%s", err, text)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
		t.Errorf("%v, another file: %v, before %v", err, after, before)
	}
}

// parsesAs reports whether text has the configuration dns.
func parsesAs(text []byte, dns string) bool {
	return resolvconf.Parse(string(text)).Config().Equal(resolvconf.Parse(dns).Config())
}

// TestRestore writes the kubelet's text back after some rewrites, and then replaces it again.
func TestRestore(t *testing.T) {
	for _, kubelet := range []string{kubeletText, strings.TrimSuffix(kubeletText, "\n")} {
		directory := t.TempDir()
		path := newFile(t, directory, kubelet)
		f := openFile(t, directory, path)
		original := []byte(kubelet)
		for i, dns := range []string{firstDNS, otherDNS, firstDNS, "", otherDNS} {
			old, err := f.Read()
			if i > 0 {
				var ok bool
				if original, ok = Original(old); !ok || string(original) != kubelet {
					t.Fatalf("original %q, %t, want %q", original, ok, kubelet)
				}
			}
			if dns == "" {
				err = errors.Join(err, f.Restore(old, original))
			} else {
				err = errors.Join(err, f.Replace(old, dns, original))
			}
			text, readErr := os.ReadFile(path)
			if err := errors.Join(err, readErr); err != nil || len(text) < len(old) {
				t.Fatalf("%v, %d bytes, before %d", err, len(text), len(old))
			}
			if dns == "" && (OriginOf(text) != Restored ||
				!bytes.HasPrefix(text, []byte(kubelet + "\n")[:len(kubeletText)]) || !parsesAs(text, kubelet)) {
				t.Errorf("the restored file:\n%s", text)
			}
		}
	}
}

// TestCreate creates a file that is missing, and no directory. All users can read the file, also if
// the umask is that of the shim's unit.
func TestCreate(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	directory := t.TempDir()
	path := newFile(t, directory, kubeletText)
	if _, err := Create([]string{directory}, sandbox, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that exists: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f, err := Create([]string{directory}, sandbox, path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create([]string{directory}, sandbox, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a sandbox that was removed: %v", err)
	}
}

// TestReplace_Changed: a text that the pod changed is not replaced.
func TestReplace_Changed(t *testing.T) {
	directory := t.TempDir()
	path := newFile(t, directory, "nameserver 203.0.113.66\n")
	if err := openFile(t, directory, path).Replace([]byte(kubeletText), firstDNS, []byte(kubeletText)); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v, want %v", err, ErrChanged)
	}
	if text, err := os.ReadFile(path); string(text) != "nameserver 203.0.113.66\n" {
		t.Errorf("the file was replaced: %q, %v", text, err)
	}
}

// TestOpen_Foreign opens what is not the file of the sandbox, as a hostile pod or a broken
// runtime would present it.
func TestOpen_Foreign(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "sandboxes")
	secret := newFile(t, t.TempDir(), "secret")
	path := filepath.Join(directory, sandbox, "resolv.conf")
	for name, create := range map[string]func() error{
		"link":           func() error { return os.Symlink(secret, path) },
		"relative link":  func() error { return os.Symlink("../../x", path) },
		"second name":    func() error { return os.Link(secret, path) },
		"directory":      func() error { return os.Mkdir(path, 0o755) },
		"FIFO":           func() error { return unix.Mkfifo(path, 0o644) },
		"socket":         func() error { return unix.Mknod(path, unix.S_IFSOCK|0o644, 0) },
		"missing":        func() error { return nil },
		"link to itself": func() error { return os.Symlink("resolv.conf", path) },
		"linked sandbox": func() error {
			return errors.Join(os.Remove(filepath.Dir(path)), os.Symlink(filepath.Dir(secret), filepath.Dir(path)))
		},
		"no directories": func() error { return os.RemoveAll(directory) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(directory), os.MkdirAll(filepath.Dir(path), 0o755), create()); err != nil {
				t.Fatal(err)
			}
			if f, err := Open([]string{directory}, sandbox, path); err == nil {
				t.Error("no error")
				f.Close()
			} else if _, isPath := errors.AsType[*fs.PathError](err); !isPath && !errors.Is(err, ErrForeign) {
				t.Errorf("got %v", err)
			}
		})
	}
	if text, err := os.ReadFile(secret); string(text) != "secret" {
		t.Errorf("the other file has changed: %q, %v", text, err)
	}
}

// TestOpen_Path opens paths that are not those of a sandbox.
func TestOpen_Path(t *testing.T) {
	directory := t.TempDir()
	newFile(t, directory, kubeletText)
	nested := filepath.Join(directory, sandbox, "userdata", "resolv.conf")
	if err := errors.Join(os.Mkdir(filepath.Dir(nested), 0o755), os.WriteFile(nested, []byte(kubeletText), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sandbox, path string
		ok            bool
	}{
		{sandbox, directory + "/5e1f/resolv.conf", true},
		{sandbox, directory + "/5e1f/userdata/resolv.conf", true},
		{sandbox, directory + "/5e1f/hosts", false},
		{sandbox, directory + "/5e1f", false},
		{sandbox, directory + "/5e1f//resolv.conf", false},
		{sandbox, directory + "/5e1f/../5e1f/resolv.conf", false},
		{"5e1f/userdata", directory + "/5e1f/userdata/resolv.conf", false},
		{"5e1", directory + "/5e1f/resolv.conf", false},
		{"", directory + "//resolv.conf", false},
		{".", directory + "/./resolv.conf", false},
		{"..", directory + "/../resolv.conf", false},
		{sandbox, "/etc/resolv.conf", false},
		{sandbox, "5e1f/resolv.conf", false},
		{sandbox, "", false},
	} {
		f, err := Open([]string{directory + "/"}, c.sandbox, c.path)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("sandbox %q, path %q: %v", c.sandbox, c.path, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// TestReplace_Large: a file of more than a page is left unchanged.
func TestReplace_Large(t *testing.T) {
	directory := t.TempDir()
	for n, want := range map[int]error{MaxSize: nil, MaxSize + 1: ErrTooLarge} {
		f := openFile(t, directory, newFile(t, directory, strings.Repeat("#\n", MaxSize)[:n]))
		old, err := f.Read()
		if err == nil {
			err = f.Replace(old, firstDNS, old)
		}
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", n, err, want)
		}
	}
}

// mountTmpfs returns a directory with a file system of some pages.
func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a file system")
	}
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// TestReplace_FullDisk: on a full file system the file gets the whole new text, in the page
// that it has, or keeps the old one.
func TestReplace_FullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"with a page": {kubeletText, nil},
		"empty":       {"", unix.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			directory := mountTmpfs(t, "64k")
			path := newFile(t, directory, c.text)
			if err := os.WriteFile(filepath.Join(directory, "fill"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("the file system is not full: %v", err)
			}
			if err := openFile(t, directory, path).Replace([]byte(c.text), firstDNS, []byte(c.text)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			text, err := os.ReadFile(path)
			if err != nil || c.want == nil && OriginOf(text) != Written || c.want != nil && string(text) != c.text {
				t.Errorf("%v, the file has %q", err, text)
			}
		})
	}
}

// TestReplace_ReadOnly: a read-only file system is an error.
func TestReplace_ReadOnly(t *testing.T) {
	directory := mountTmpfs(t, "64k")
	path := newFile(t, directory, kubeletText)
	if err := unix.Mount("", directory, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]string{directory}, sandbox, path); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want %v", err, unix.EROFS)
	}
}

// The changes of TestReplace_Readers, and the reads of each resolver between two of them.
const (
	readerChanges = 1000
	readsBetween  = 100
)

// readerPieces are the sizes of the reads of resolvers: those of stdio in glibc, of __fopen_rb_ca with
// the buffer of __get_resolv_conf in musl, and of package net in Go.
var readerPieces = map[string]int{"glibc": 4096, "musl": 248, "Go": 64 << 10}

// TestReplace_Readers reads as the resolvers do, at full speed, while the file is replaced. No read
// is empty or cut short, and every text has a nameserver of one of both texts. A mixture of both is
// possible; they are counted.
func TestReplace_Readers(t *testing.T) {
	directory := t.TempDir()
	path := newFile(t, directory, kubeletText)
	f := openFile(t, directory, path)
	if err := f.Replace([]byte(kubeletText), firstDNS, []byte(kubeletText)); err != nil { // the size is final from here on
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct{ reads, mixtures atomic.Int64 }
	resolvers := map[string]*counts{}
	var readers sync.WaitGroup
	done := make(chan struct{})
	for name, piece := range readerPieces {
		resolver := &counts{}
		resolvers[name] = resolver
		readers.Go(func() {
			b, isMixture := make([]byte, piece), map[string]bool{} // of the texts that were read
			for {
				select {
				case <-done:
					return
				default:
				}
				text, err := readPieces(path, b)
				mixture, checked := isMixture[string(text)]
				if !checked {
					if problem := checkRead(text, int(info.Size())); err != nil || problem != "" {
						t.Errorf("pieces of %d bytes: %v, %s\n%q", piece, err, problem, text)
						return
					}
					mixture = !parsesAs(text, firstDNS) && !parsesAs(text, otherDNS)
					isMixture[string(text)] = mixture
				}
				resolver.reads.Add(1)
				if mixture {
					resolver.mixtures.Add(1)
				}
			}
		})
	}
	for i := range int64(readerChanges) {
		replaceNext(t, f, int(i))
		for _, r := range resolvers {
			for !t.Failed() && r.reads.Load() < (i+1)*readsBetween {
				runtime.Gosched()
			}
		}
	}
	close(done)
	readers.Wait()
	for name, r := range resolvers {
		t.Logf("%d changes, %d reads as %s: 0 empty, 0 that do not parse, %d mixtures of two configurations",
			readerChanges, r.reads.Load(), name, r.mixtures.Load())
	}
}

// checkRead returns a problem of a text that was read while the file was replaced: the three
// resolvers must find a nameserver in it, and no line that they do not understand.
func checkRead(text []byte, size int) string {
	servers := resolvconf.Parse(string(text)).Config().Nameservers
	switch {
	case len(text) != size:
		return fmt.Sprintf("%d bytes, want %d", len(text), size)
	case len(servers) != 1 || servers[0] != "169.254.20.10" && servers[0] != "10.96.0.10":
		return fmt.Sprintf("nameservers %q", servers)
	}
	for line := range strings.Lines(string(text)) {
		keyword, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(keyword, "#") && !slices.Contains([]string{"", "nameserver", "search", "options"}, keyword) {
			return fmt.Sprintf("line %q", line)
		}
	}
	return ""
}

// replaceNext replaces the text by one of two.
func replaceNext(t *testing.T, f *File, i int) {
	old, err := f.Read()
	if err == nil {
		err = f.Replace(old, []string{firstDNS, otherDNS}[i%2], []byte(kubeletText))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readPieces(path string, b []byte) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		n, err := syscall.Read(int(f.Fd()), b)
		if n <= 0 {
			return text, err
		}
		text = append(text, b[:n]...)
	}
}

// killedVariable has the path of the file that the test's second process replaces.
const killedVariable = "SANDBOXFILE_KILLED"

// TestReplace_Killed kills a process that replaces the file, at random times. The file always
// has a whole text.
func TestReplace_Killed(t *testing.T) {
	if path := os.Getenv(killedVariable); path != "" {
		f := openFile(t, filepath.Dir(filepath.Dir(path)), path)
		_, _ = os.Stdout.WriteString("ready\n")
		for i := 0; ; i++ {
			replaceNext(t, f, i)
		}
	}
	path := newFile(t, t.TempDir(), kubeletText)
	for range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReplace_Killed$")
		cmd.Env = append(os.Environ(), killedVariable+"="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(5 * time.Millisecond)) // any time is right
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		text, err := os.ReadFile(path)
		if err != nil || OriginOf(text) != Written && string(text) != kubeletText {
			t.Fatalf("%v, the file has %q", err, text)
		}
	}
}
