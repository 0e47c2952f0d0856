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

// readerTexts are written one after another: with one to three nameservers, and search lines of one to
// three slots and of more than 254 bytes.
func readerTexts() (texts []string) {
	for i, searches := range []string{
		"shop.svc.cluster.local", "a-longer.domain.example b.example c.example", strings.Repeat("eu.corp.example ", 6) + "x.example",
		strings.Repeat("ab.cd ", 25) + "y.example", strings.Repeat("abc.de ", 40) + "z.example", "one.example",
		strings.Repeat("abcd.ef ", 60) + "w.example", strings.Repeat("us.corp.example ", 9) + "v.example",
	} {
		var text string
		for n := range []int{1, 1, 2, 3, 3, 1, 2, 1}[i] {
			text += fmt.Sprintf("nameserver 10.%d.0.%d\n", 96+11*i, 10+n)
		}
		texts = append(texts, fmt.Sprintf("%ssearch %s\noptions ndots:%d\n", text, searches, 1+i%3))
	}
	return texts
}

// TestReplace_Readers reads as the resolvers do, at full speed, while the file is replaced. No read is empty
// or cut short. A reader that the kernel interrupts while it copies may get parts of texts between several
// writes, which no order of writes prevents: such texts are counted. TestSteps_Mixtures has the guarantees.
func TestReplace_Readers(t *testing.T) {
	for name, piece := range readerPieces {
		t.Run(name, func(t *testing.T) {
			texts := readerTexts()
			if piece < MaxSize { // musl ignores lines that do not fit into one read
				texts = slices.DeleteFunc(texts, func(text string) bool { return len(text) > 300 })
			}
			directory := t.TempDir()
			path := newFile(t, directory, kubeletText)
			f := openFile(t, directory, path)
			// The size is final from here on.
			if err := f.Replace([]byte(kubeletText), texts[0]+"#"+strings.Repeat(" ", 1500)+"\n", []byte(kubeletText)); err != nil {
				t.Fatal(err)
			}
			known := knownLines(texts...)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			var reads, foreign, withoutServer atomic.Int64
			done, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				b := make([]byte, piece)
				for {
					select {
					case <-done:
						return
					default:
					}
					text, err := readPieces(path, b)
					if err != nil || len(text) != int(info.Size()) {
						t.Errorf("%v, %d bytes, want %d", err, len(text), info.Size())
						return
					}
					if line := foreignLine(text, known); line != "" {
						foreign.Add(1)
					}
					if !bytes.Contains(text, []byte("\nnameserver ")) && !bytes.HasPrefix(text, []byte("nameserver ")) {
						withoutServer.Add(1)
					}
					reads.Add(1)
				}
			}()
			for i := range int64(readerChanges) {
				old, err := f.Read()
				if err == nil {
					err = f.Replace(old, texts[rand.N(len(texts))], []byte(kubeletText))
				}
				if err != nil {
					t.Fatal(err)
				}
				for !t.Failed() && reads.Load() < (i+1)*readsBetween {
					runtime.Gosched()
				}
			}
			close(done)
			<-ended
			t.Logf("%d changes, %d reads: %d with a line that no text has, %d without a nameserver",
				readerChanges, reads.Load(), foreign.Load(), withoutServer.Load())
		})
	}
}

// knownLines returns the lines of texts, and the empty line.
func knownLines(texts ...string) map[string]bool {
	known := map[string]bool{"\n": true, "": true}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			known[line] = true
		}
	}
	return known
}

// foreignLine returns a line of text that is neither known nor a comment, or "".
func foreignLine(text []byte, known map[string]bool) string {
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !known[line] {
			return line
		}
	}
	return ""
}

// TestSteps_Mixtures mixes the bytes before and after each write of a replacement, as a read at the same time
// may get them. No mixture has a line that neither the old nor the new text has. If the old text is of this
// package, all have a nameserver.
func TestSteps_Mixtures(t *testing.T) {
	texts := append(readerTexts(), kubeletText)
	random := rand.New(rand.NewPCG(1, 2))
	for _, before := range texts {
		for _, after := range texts {
			written, err := compose(before, []byte(kubeletText), 2048)
			if err != nil {
				t.Fatal(err)
			}
			restored, err := composeRestored([]byte(before), 2048)
			if err != nil {
				t.Fatal(err)
			}
			for _, old := range [][]byte{written, restored, []byte(before), []byte(strings.TrimSuffix(before, "\n"))} {
				text, err := compose(after, []byte(kubeletText), max(2048, leastSize(old)))
				if err != nil {
					t.Fatal(err)
				}
				known := knownLines(before, after, string(old))
				file := slices.Clone(old)
				for i, s := range steps(old, text) {
					next := append(slices.Clone(file[:s.at]), s.text...)
					next = append(next, file[min(len(file), len(next)):]...)
					for range 20 {
						mixture := slices.Clone(next)
						for at, chunk := 0, 1<<random.IntN(10); at < len(file); at += chunk {
							if random.IntN(2) == 0 {
								copy(mixture[at:min(at+chunk, len(file))], file[at:])
							}
						}
						if line := foreignLine(mixture, known); line != "" {
							t.Fatalf("during write %d: line %q\n%s", i+1, line, mixture)
						}
						if OriginOf(old) == Written && len(resolvconf.Parse(string(mixture)).Config().Nameservers) == 0 {
							t.Fatalf("during write %d: no nameserver\n%s", i+1, mixture)
						}
					}
					file = next
				}
			}
		}
	}
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

// TestSteps_Killed stops a replacement after each write. The text says that it is incomplete, or is the old or
// the new one, and the next replacement completes it.
func TestSteps_Killed(t *testing.T) {
	texts := append(readerTexts(), kubeletText)
	for _, before := range texts {
		for _, after := range texts {
			old, err := compose(before, []byte(kubeletText), 2048)
			if err != nil {
				t.Fatal(err)
			}
			for _, old := range [][]byte{[]byte(kubeletText), []byte(strings.TrimSuffix(kubeletText, "\n")), old} {
				text, err := compose(after, []byte(kubeletText), max(2048, leastSize(old)))
				if err != nil {
					t.Fatal(err)
				}
				file := slices.Clone(old)
				list := steps(old, text)
				for i, s := range list {
					file = append(file[:s.at], append(slices.Clone(s.text), file[min(len(file), s.at+len(s.text)):]...)...)
					if origin := OriginOf(file); i < len(list)-1 && origin != Unfinished {
						t.Fatalf("after write %d of %d: origin %v\n%s", i+1, len(list), origin, file)
					}
					if _, ok := Original(file); ok != (i == len(list)-1) {
						t.Fatalf("after write %d of %d: the text of the runtime is known: %t", i+1, len(list), ok)
					}
				}
				if !bytes.Equal(file, text) {
					t.Fatalf("got %q, want %q", file, text)
				}
			}
		}
	}
}

// killedVariable has the path of the file that the test's second process replaces.
const killedVariable = "SANDBOXFILE_KILLED"

// TestReplace_Killed kills a process that replaces the file, at random times. The file has a whole text, or
// the next process completes it.
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
		if origin := OriginOf(text); err != nil || origin != Written && origin != Unfinished && string(text) != kubeletText {
			t.Fatalf("%v, the file has %q", err, text)
		}
	}
}
