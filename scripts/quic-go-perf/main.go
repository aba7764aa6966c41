// QUIC perf (draft-banks-quic-performance-00) on quic-go, in a few lines: `perf serve ADDR CERTIFICATE KEY`, and
// `perf run ADDR UPLOAD DOWNLOAD`, which prints the seconds of each direction.
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

var piece = make([]byte, 64<<10)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(to io.Writer, count uint64) error {
	for count > 0 {
		n, err := to.Write(piece[:min(count, uint64(len(piece)))])
		if err != nil {
			return err
		}
		count -= uint64(n)
	}
	return nil
}

func answer(stream *quic.Stream) {
	var wish [8]byte
	if _, err := io.ReadFull(stream, wish[:]); err != nil {
		stream.CancelWrite(1)
		return
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		stream.CancelWrite(1)
		return
	}
	if send(stream, binary.BigEndian.Uint64(wish[:])) == nil {
		stream.Close()
	}
}

func serve(at, certificate, key string) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	terms := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"perf"}}
	listener, err := quic.ListenAddr(at, terms, nil)
	check(err)
	fmt.Println(listener.Addr())
	for {
		conn, err := listener.Accept(context.Background())
		check(err)
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answer(stream)
			}
		}()
	}
}

func run(to string, upload, download uint64) {
	terms := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"perf"}}
	conn, err := quic.DialAddr(context.Background(), to, terms, nil)
	check(err)
	for _, way := range [][2]uint64{{upload, 0}, {0, download}} {
		stream, err := conn.OpenStreamSync(context.Background())
		check(err)
		began := time.Now()
		check(binary.Write(stream, binary.BigEndian, way[1]))
		check(send(stream, way[0]))
		check(stream.Close())
		got, err := io.Copy(io.Discard, stream)
		check(err)
		fmt.Printf("up %d down %d bytes in %.3f s\n", way[0], got, time.Since(began).Seconds())
	}
	conn.CloseWithError(0, "")
}

func main() {
	switch {
	case len(os.Args) == 5 && os.Args[1] == "serve":
		serve(os.Args[2], os.Args[3], os.Args[4])
	case len(os.Args) == 5 && os.Args[1] == "run":
		upload, err := strconv.ParseUint(os.Args[3], 10, 64)
		check(err)
		download, err := strconv.ParseUint(os.Args[4], 10, 64)
		check(err)
		run(os.Args[2], upload, download)
	default:
		fmt.Fprintln(os.Stderr, "perf serve ADDR CERTIFICATE KEY | perf run ADDR UPLOAD DOWNLOAD")
		os.Exit(2)
	}
}
