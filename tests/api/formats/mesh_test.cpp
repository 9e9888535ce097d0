// Mesh files: what is read, what is refused, where a mesh is not manifold, and what is written.
#include "../../support/paths.hpp"

#include "../../../api/formats/mesh/mesh.hpp"
#include "../../../api/formats/packed_text.hpp"
#include "../../../ir/error.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using Triangles = std::vector<std::array<std::uint32_t, 3>>;

/// The bytes of a number in a byte order.
template <class T>
std::string bytes(T value, std::endian order = std::endian::little) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  if (order != std::endian::native) std::ranges::reverse(out);
  return out;
}

std::string stl_header(const std::string& text, std::uint32_t triangles) {
  std::string header = text;
  header.resize(80, ' ');
  return header + bytes(triangles);
}

std::string stl_triangle(const std::array<float, 9>& corners) {
  std::string out(12, '\x7f');  // a normal that is not a number
  for (const float x : corners) out += bytes(x);
  return out + bytes(std::uint16_t{0});
}

/// A square of two triangles, with a face that needs the list's second type.
std::string ply_square(std::endian order) {
  std::string out =
      "ply\r\nformat binary_" + std::string(order == std::endian::big ? "big" : "little") +
      "_endian 1.0\r\ncomment element vertex 7\r\nelement camera 1\r\nproperty list uchar short "
      "view\r\nproperty float f\r\nelement vertex 4\r\nproperty double x\r\nproperty uchar red\r\n"
      "property double y\r\nproperty float z\r\nelement face 1\r\nproperty int8 flag\r\nproperty "
      "list uint16 int32 vertex_index\r\nend_header\r\n";
  out += bytes(std::uint8_t{2}, order) + bytes(std::int16_t{-1}, order) +
         bytes(std::int16_t{9}, order) + bytes(std::nanf(""), order);
  for (const auto& [x, y] : {std::pair{0.1, 0.0}, {1.0, 0.0}, {1.0, 1.0}, {0.0, 1.0}})
    out +=
        bytes(x, order) + bytes(std::uint8_t{255}, order) + bytes(y, order) + bytes(-0.5f, order);
  out += bytes(std::int8_t{-3}, order) + bytes(std::uint16_t{4}, order);
  for (const std::int32_t v : {0, 1, 2, 3}) out += bytes(v, order);
  return out;
}

struct GoodMesh {
  const char* name;
  MeshFormat format;
  std::string text;
  std::vector<double> positions;
  Triangles triangles;
};

TEST(Mesh, ReadsAllFormats) {
  const std::vector<double> square = {0.1, 0, -0.5, 1, 0, -0.5, 1, 1, -0.5, 0, 1, -0.5};
  const Triangles fan = {{0, 1, 2}, {0, 2, 3}};
  const std::string facet =
      "Facet normal nan nan nan\n outer loop\n vertex 0.1 0 -0.5\n vertex 1 0 -0.5\n vertex 1 1 "
      "-0.5\n endloop\n ENDFACET\n";
  const std::array<float, 9> first = {0, 0, 0, 1, 0, 0, 0, 1, 0};
  const std::array<float, 9> second = {1, -0.0f, 0, 1, 1, 0, -0.0f, 1, 0};
  const std::vector<double> flat = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0};
  const Triangles welded = {{0, 1, 2}, {1, 3, 2}};
  const GoodMesh rows[] = {
      {"OBJ",
       MeshFormat::obj,
       "\xef\xbb\xbf# square\nv 0.1 0 -0.5 9 9 9\nf 1/7 2//3 \\\r\n 3/1/1#one\nvn 0 0 1\n"
       "v +1 0 \\\n-0.5\nv 1 1 -0.5\nv 0 1 -0.5\n",
       square,
       {{0, 1, 2}}},
      {"OBJ, from the end", MeshFormat::obj,
       "v 0.1 0 -0.5\nv 1 0 -0.5\nv 1 1 -0.5\nv 0 1 -0.5\nf -4 -3 -2 -1", square, fan},
      {"OFF", MeshFormat::off,
       "OFF # square\n\n4 1 4\n0.1 0 -0.5\n1 0 -.5\n# last two\n1 1 -0.5\n0 1 -0.5\n4 0 1 2 3 7 7",
       square, fan},
      {"OFF with colours", MeshFormat::off,
       "COFF 4 1 0\n0.1 0 -0.5 1 0 0 1\n1 0 -0.5 1 0 0 1\n1 1 -0.5 1 0 0 1\n0 1 -0.5 1 0 0 1\n"
       "4  0 1 2 3\n",
       square, fan},
      {"PLY", MeshFormat::ply,
       "ply\nformat ascii 1.0\nobj_info a b\nelement vertex 4\nproperty float z\nproperty float "
       "x\nproperty float y\nproperty float nx\nelement empty 99999999999\nelement face 1\n"
       "property list uchar float weights\nproperty list uchar int vertex_indices\nelement edge 1"
       "\nproperty int a\nend_header\n-0.5 0.1 0 nan\n-0.5 1 0 inf\n-0.5 1 1 0\n-0.5 0 1 0\n1 0.5 "
       "4 0 1 2 3\n7\n",
       square, fan},
      {"PLY, low byte first", MeshFormat::ply, ply_square(std::endian::little), square, fan},
      {"PLY, high byte first", MeshFormat::ply, ply_square(std::endian::big), square, fan},
      {"STL", MeshFormat::stl,
       " solid a facet\n" + facet + "endsolid a\nsolid\n" +
           "facet normal 0 0 1 outer loop vertex 0.1 0 -0.5 vertex 1 1 -0.5 vertex 0 1 -5e-1 "
           "endloop endfacet\nendsolid",
       square, fan},
      {"STL with a byte order mark", MeshFormat::stl,
       "\xef\xbb\xbfsolid\r\n" + facet +
           "facet normal 0 0 1 outer loop vertex 0.1 0 -0.5 vertex 1 1 -0.5 vertex 0 1 -5e-1\r\n"
           "endloop endfacet\r\nendsolid\r\n",
       square, fan},
      {"binary STL", MeshFormat::stl,
       stl_header("", 2) + stl_triangle(first) + stl_triangle(second), flat, welded},
      {"binary STL that begins like text", MeshFormat::stl,
       stl_header("solid", 2) + stl_triangle(first) + stl_triangle(second), flat, welded},
  };
  for (const GoodMesh& row : rows) {
    SCOPED_TRACE(row.name);
    MeshNotes notes;
    const TriangleMesh mesh = parse_mesh(row.text, row.format, "mesh", {.strict = true}, &notes);
    EXPECT_EQ(mesh.positions, row.positions);
    EXPECT_EQ(mesh.triangles, row.triangles);
    EXPECT_EQ(notes.edges + notes.vertices, 0u);
  }
}

/// Coordinates whose shortest decimal form has up to 17 digits.
TriangleMesh hard_mesh() {
  TriangleMesh mesh;
  double x = 0.1;
  for (int k = 0; k < 30; ++k) {
    x = std::fmod(x * 1.618033988749895 + 0.123456789012345678, 3.0) * (k % 2 == 0 ? -1 : 1);
    mesh.positions.push_back(x);
  }
  mesh.positions[4] = 5e-324;
  mesh.positions[5] = std::numeric_limits<double>::max();
  mesh.positions[7] = -0.0;
  for (std::uint32_t k = 0; k + 2 < 10; ++k) mesh.triangles.push_back({k, k + 1, k + 2});
  return mesh;
}

TEST(Mesh, ReadsBackToTheSameBits) {
  const TriangleMesh mesh = hard_mesh();
  const TemporaryDir folder;
  for (const std::string extension : {"obj", "off", "ply", "stl", "OBJ"}) {
    const std::string path = (folder.path() / ("mesh." + extension)).string();
    write_mesh(path, mesh);
    const TriangleMesh again = read_mesh(path);
    ASSERT_EQ(again.positions.size(), mesh.positions.size()) << extension;
    for (std::size_t k = 0; k < mesh.positions.size(); ++k)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(again.positions[k]),
                std::bit_cast<std::uint64_t>(mesh.positions[k]))
          << extension << " " << k;
    EXPECT_EQ(again.triangles, mesh.triangles) << extension;
  }
}

TEST(Mesh, ReadsPackedFiles) {
  const TemporaryDir folder;
  const std::string path = (folder.path() / "mesh.ply.gz").string();
  const std::string text = mesh_text(hard_mesh(), MeshFormat::ply);
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_mesh(path).positions, hard_mesh().positions);
}

TEST(Mesh, TheExtensionIsTheFormat) {
  EXPECT_EQ(mesh_format("a.OFF"), MeshFormat::off);
  EXPECT_EQ(mesh_format("a.obj.stl"), MeshFormat::stl);
  for (const char* path : {"a", "obj", "a.obj.png", "a.obj.gz", "/dev/obj/x"})
    EXPECT_THROW(mesh_format(path), Error) << path;
  TriangleMesh wrong = hard_mesh();
  wrong.triangles[0][1] = 10;
  EXPECT_THROW(mesh_text(wrong, MeshFormat::stl), Error);
}

struct BadMesh {
  MeshFormat format;
  std::string text;
  const char* expected;
};

const std::string kPly = "ply\nformat ascii 1.0\n";
const std::string kVertices =
    "element vertex 3\nproperty float x\nproperty float y\n"
    "property float z\n";
const std::string kStrips = "element tristrips 1\nproperty list int int vertex_indices\n";
const std::string kFaces = "element face 1\nproperty list uchar int vertex_indices\n";
const std::string kTriangle = "end_header\n0 0 0\n1 0 0\n0 1 0\n";
const std::string kBinary = "ply\nformat binary_little_endian 1.0\n" + kVertices + kFaces +
                            "end_header\n" + std::string(36, '\0');
const std::string kFace = '\3' + bytes(0) + bytes(1) + bytes(2);

std::string solid(const std::string& vertex) {
  return "solid\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n" + vertex;
}

TEST(Mesh, HeadersTakeTimeInProportionToTheirLength) {
  std::string text = kPly + kVertices;
  for (int k = 0; k < 200'000; ++k) text += "property float p" + std::to_string(k) + "\n";
  for (int k = 0; k < 200'000; ++k) text += "element e" + std::to_string(k) + " 0\n";
  text += kFaces + "end_header\n";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(parse_mesh(text, MeshFormat::ply, "wide.ply"), Error);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(spent.count(), 5) << "a comparison of each name with all others takes a minute";
}

TEST(Mesh, MistakesAreToldWithFileAndPlace) {
  const float nan = std::nanf("");
  const BadMesh rows[] = {
      {MeshFormat::obj, "", "mesh:1: the file is empty"},
      {MeshFormat::obj, "hello world\n", "mesh:1: expected an OBJ record, got \"hello\""},
      {MeshFormat::obj, "v 0 0 0\nv 0 1",
       "mesh:2: expected a coordinate as a finite number, got "
       "the end of the file"},
      {MeshFormat::obj, "v 0 inf 0\n",
       "mesh:1: expected a coordinate as a finite number, got "
       "\"inf\""},
      {MeshFormat::obj, "v 0 0 0\nf 1 1e0 1\n", "mesh:2: expected a vertex number in a face"},
      {MeshFormat::obj, "v 0 0 0\n\nf 1 \\\n 2\n",
       "mesh:3: expected a face of at least three "
       "corners, got 2"},
      {MeshFormat::obj, "v 0 0 0\nv 1 0 0\nf 2 1 2 1\n",
       "mesh:4: expected faces, got none but some with one vertex twice"},
      {MeshFormat::obj, "v 0 0 0\nf 1 2 2\n",
       "mesh:2: expected a vertex number from 1 to 1, got 2"},
      {MeshFormat::obj, "v 0 0 0\nf 1 2 3", "mesh:2: expected a vertex number from 1 to 1, got 2"},
      {MeshFormat::obj, "f 1 2 3\n", "mesh:1: expected vertices, got none, and a face of 1"},
      {MeshFormat::obj, "v 0 0 0\n", "mesh:2: expected faces, got none"},

      {MeshFormat::off, "3 1 0\n",
       "mesh:1: expected 3 vertices and 1 faces, got a file that ends "},
      {MeshFormat::off, "vertices 3\n",
       "mesh:1: expected OFF, COFF, NOFF or STOFF, got \"vertices\""},
      {MeshFormat::off, "OFFx 3 1 0\n", "mesh:1: expected OFF, COFF, NOFF or STOFF, got \"OFFx\""},
      {MeshFormat::off, "4OFF\n", "got \"4OFF\""},
      {MeshFormat::off, "OFF\n4000000000 1 0\n0 0 0\n",
       "mesh:2: expected 4000000000 vertices and 1 faces, got a file that ends "},
      {MeshFormat::off, "OFF\n1 -1 0\n", "mesh:2: expected the number of faces as a whole number"},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 nan 0\n3 0 1 2\n",
       "mesh:5: expected a coordinate as a finite number, got \"nan\""},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n",
       "mesh:6: expected a vertex number from 0 to 2, got 3"},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1\n\n",
       "expected a vertex number as a whole number, got the end of the file"},
      {MeshFormat::off, "OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 #####\n",
       "mesh:7: expected 2 faces, got the end of the file"},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n2 0 1 # line\n",
       "mesh:6: expected a face of at least three corners, got 2"},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 1\n",
       "expected faces, got none but some with one vertex twice"},
      {MeshFormat::off, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n3 0 1 2\n",
       "mesh:7: expected the end of the file, got \"3\""},

      {MeshFormat::ply, "plx\n", "mesh:1: expected \"ply\", got \"plx\""},
      {MeshFormat::ply, "ply\nformat ascii 2.0\n", "mesh:2: expected version 1.0, got \"2.0\""},
      {MeshFormat::ply, "ply\nformat binary 1.0\n", "mesh:2: expected ascii, binary_little_endian"},
      {MeshFormat::ply, "ply\n" + kVertices + "end_header\n",
       "mesh:6: expected a line \"format\" before the end of the header"},
      {MeshFormat::ply, kPly + "property float x\n", "mesh:3: expected format, comment, element"},
      {MeshFormat::ply, kPly + "element vertex 1\nproperty real x\n",
       "mesh:4: expected a type of numbers, such as float or uint8, got \"real\""},
      {MeshFormat::ply, kPly + "element face 1\nproperty list float int vertex_index\n",
       "mesh:4: expected a whole type for the length of a list"},
      {MeshFormat::ply, kPly + kVertices + kVertices,
       "mesh:7: an element \"vertex\" is there twice"},
      {MeshFormat::ply, kPly + kVertices, "expected end_header, got the end of the file"},
      {MeshFormat::ply,
       kPly + "element vertex 1\nproperty float x\nproperty float y\nend_header\n"
              "0 0",
       "mesh:3: expected vertices with x, y and z, got none with z"},
      {MeshFormat::ply,
       kPly + kVertices + "element face 1\nproperty int corner\n" + kTriangle + "0",
       "mesh:7: expected faces with one list of whole numbers, vertex_indices or vertex_index"},
      {MeshFormat::ply, kPly + kVertices + kTriangle, "expected faces, got none"},
      {MeshFormat::ply,
       kPly + "element vertex 10000000000\nproperty double x\nproperty double y\nproperty double "
              "z\nend_header\n0 0 0\n",
       "mesh:3: expected 10000000000 items of \"vertex\", got a file that has room for "},
      {MeshFormat::ply, kPly + kVertices + kFaces + kTriangle + "3 0 1 3\n",
       "mesh:13: expected a vertex number from 0 to 2, got 3"},
      {MeshFormat::ply, kPly + kVertices + kFaces + kTriangle + "3 0 1 0.5\n",
       "mesh:13: expected a vertex number from 0 to 2, got 0.5"},
      {MeshFormat::ply, kPly + kVertices + kStrips + kTriangle + "4 0 1 2 3\n",
       "mesh:13: expected a vertex number from 0 to 2, got 3"},
      {MeshFormat::ply, kPly + kVertices + kStrips + kTriangle + "3 0 1 0.5\n",
       "mesh:13: expected a vertex number from 0 to 2, got 0.5"},
      {MeshFormat::ply, kPly + kVertices + kFaces + kTriangle + "200 0 1 2\n",
       "mesh:13: expected a length of \"vertex_indices\" from 0 to the "},
      {MeshFormat::ply, kPly + kVertices + kFaces + kTriangle + "3 0 1 2 3\n",
       "mesh:13: expected the end of the file, got \"3\""},
      {MeshFormat::ply, kPly + kVertices + kFaces + "end_header\n0 0 0\n1 0 0\n0 1 nan 3 0 1 2",
       "mesh:12: expected \"z\" as a finite number, got \"nan\""},
      {MeshFormat::ply, kBinary.substr(0, kBinary.size() - 1),
       "mesh:3: expected 3 items of \"vertex\", got a file that has room for 2"},
      {MeshFormat::ply, kBinary,
       "mesh:7: expected 1 items of \"face\", got a file that has room for 0"},
      {MeshFormat::ply, kBinary + '\2' + bytes(0) + bytes(1),
       "mesh: face 0: expected a face of at least three corners, got 2"},
      {MeshFormat::ply, kBinary + '\3' + bytes(0) + bytes(1) + bytes(-2),
       "mesh: face 0: expected a vertex number from 0 to 2, got -2"},
      {MeshFormat::ply,
       kBinary.substr(0, kBinary.size() - 12) + bytes(nan) + std::string(8, '\0') + kFace,
       "mesh: vertex 2: expected \"x\" as a finite number, got nan"},
      {MeshFormat::ply, kBinary + kFace.substr(0, 9),
       "mesh: face 0: expected a length of \"vertex_indices\" from 0 to the 2 that the file has "
       "room for, got 3"},
      {MeshFormat::ply, kBinary + '\3' + bytes(0) + bytes(1) + bytes(3),
       "mesh: face 0: expected a vertex number from 0 to 2, got 3"},
      {MeshFormat::ply, kBinary + kFace + "\n",
       "mesh: expected the end of the file, got 1 bytes more"},

      {MeshFormat::stl, "facet", "mesh: expected \"solid\", or 84 bytes or more of binary STL"},
      {MeshFormat::stl, solid("vertex 0 1 nan"),
       "mesh:6: expected a coordinate as a finite number, got \"nan\""},
      {MeshFormat::stl, solid("vertex 0 1"),
       "mesh:6: expected a coordinate as a finite number, got the end of the file"},
      {MeshFormat::obj, std::string("v\0 \0", 4),
       "mesh:1: expected text in UTF-8, got UTF-16; save the file as UTF-8"},
      {MeshFormat::stl, solid("endloop"), "mesh:6: expected \"vertex\", got \"endloop\""},
      {MeshFormat::stl, solid("vertex 1 0 0\nendloop\nendfacet\nendsolid\n"),
       "expected faces, got none but some with one vertex twice"},
      {MeshFormat::stl, solid("vertex 0 1 0\nendloop\nendfacet\n"),
       "mesh:9: expected \"facet\" or \"endsolid\", got the end of the file"},
      {MeshFormat::stl, "solid\nendsolid\n", "expected faces, got none"},
      {MeshFormat::stl, stl_header("", 200000000) + stl_triangle({0, 0, 0, 1, 0, 0, 0, 1, 0}),
       "mesh: expected 200000000 triangles, got a file that has room for 1"},
      {MeshFormat::stl, stl_header("solid", 0), "mesh: expected faces, got none"},
      {MeshFormat::stl, stl_header("", 0) + "more",
       "expected the end of the file after 0 "
       "triangles, got 4 bytes more"},
      {MeshFormat::stl, stl_header("", 1) + stl_triangle({0, 0, 0, 1, 0, 0, 0, nan, 0}),
       "mesh: face 0: expected a coordinate as a finite number, got nan"},
  };
  for (const BadMesh& row : rows) {
    SCOPED_TRACE(row.text);
    try {
      parse_mesh(row.text, row.format, "mesh");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_NE(std::string(error.what()).find(row.expected), std::string::npos) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("mesh:")) << error.what();
    }
  }
}

TEST(Mesh, ReadsDialectsOfOff) {
  const std::string vertices = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n";
  const std::string files[] = {
      "OFF 4 2 5\n" + vertices + "3 0 1 2\n3 0 2 3\n",
      "\t  OFF4 2 0 # or nah\n" + vertices + "3 0 1 2 1.0 0.5 0.25\n3 0 2 3\n",
      "off\n4 2 0\n" + vertices + "3 0 1 2\n3 0 2 3\n",
      "cOff 4 2 0\n0 0 0 9 9 9\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n",
      "4 2 0\n" + vertices + "3 0 1 2\n3 0 2 3\n",
      "# first\n4 1 0\n" + vertices + "4\n0 1\n\n2 3\n",
  };
  for (const std::string& text : files) {
    SCOPED_TRACE(text);
    const TriangleMesh mesh = parse_mesh(text, MeshFormat::off, "mesh", {.strict = true});
    EXPECT_EQ(mesh.positions, (std::vector<double>{0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0}));
    EXPECT_EQ(mesh.triangles, (std::vector<std::array<std::uint32_t, 3>>{{0, 1, 2}, {0, 2, 3}}));
  }
}

TEST(Mesh, ReadsStripsOfPly) {
  const std::string head =
      kPly + "element vertex 5\nproperty float x\nproperty float y\nproperty float z\n" + kStrips +
      "end_header\n0 0 0\n0 1 0\n1 0 0\n1 1 0\n2 0 0\n";
  const std::vector<std::array<std::uint32_t, 3>> triangles = {{0, 1, 2}, {2, 1, 3}, {2, 3, 4}};
  EXPECT_EQ(parse_mesh(head + "5 0 1 2 3 4\n", MeshFormat::ply, "mesh").triangles, triangles);
  // -1 begins another strip; the triangles between 2 2 are degenerate.
  const std::vector<std::array<std::uint32_t, 3>> two = {{0, 1, 2}, {2, 3, 4}};
  EXPECT_EQ(parse_mesh(head + "7 0 1 2 -1 2 3 4\n", MeshFormat::ply, "mesh").triangles, two);
  MeshNotes notes;
  EXPECT_EQ(parse_mesh(head + "7 0 1 2 2 2 3 4\n", MeshFormat::ply, "mesh", {}, &notes).triangles,
            two);
  EXPECT_EQ(notes.degenerate, 3u);
}

TEST(Mesh, NamesFormatsThatItDoesNotRead) {
  for (const char* path : {"a.gltf", "a.GLB", "a.msh"}) {
    try {
      mesh_format(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("glTF and MSH files are not read"),
                std::string::npos);
    }
  }
}

TEST(Mesh, SkipsTagsOfOtherProgramsInObj) {
  MeshNotes notes;
  const TriangleMesh mesh = parse_mesh(
      "mg 1 0.5\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvw 1 0.5\nt crease 2/1/0 0 1 2.0\nt crease 0\n"
      "cstype bezier\nf 1 2 3\nend\n",
      MeshFormat::obj, "mesh", {}, &notes);
  EXPECT_EQ(mesh.triangles.size(), 1u);
  std::string found;
  for (const MeshNotes::Skipped& skipped : notes.skipped)
    found += skipped.tag + std::to_string(skipped.lines) + " ";
  EXPECT_EQ(found, "cstype1 end1 mg1 t2 vw1 ");
}

TEST(Mesh, DropsTrianglesWithOneVertexTwice) {
  const std::string facet = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n",
                    close = "endloop\nendfacet\n";
  const struct {
    MeshFormat format;
    std::string text;
    std::size_t dropped;
    const char* sentence;
  } rows[] = {
      {MeshFormat::obj, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 2 2\nf 3 3 3\n", 2,
       "mesh:5: expected a face of different vertices, got vertex 2 twice"},
      {MeshFormat::obj, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 2 3\n", 1,
       "mesh:4: expected a face of different vertices, got vertex 2 twice"},
      {MeshFormat::stl,
       "solid\n" + facet + "vertex 1 0 0\n" + close + facet + "vertex 0 1 0\n" + close +
           "endsolid\n",
       1, "mesh:2: expected a face of different vertices, got vertex (1 0 0) twice"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.text);
    MeshNotes notes;
    EXPECT_EQ(parse_mesh(row.text, row.format, "mesh", {}, &notes).triangles.size(), 1u);
    EXPECT_EQ(notes.degenerate, row.dropped);
    EXPECT_EQ(notes.degenerate_sentence, row.sentence);
    try {
      parse_mesh(row.text, row.format, "mesh", {.strict = true});
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), row.sentence);
    }
  }
}

/// Each proper beginning of a file ends in an error.
TEST(Mesh, TruncatedFilesAreRefused) {
  TriangleMesh mesh = hard_mesh();
  mesh.positions.back() = 0.125;  // no beginning of it is a number that would do as well
  const std::string files[] = {mesh_text(mesh, MeshFormat::off), mesh_text(mesh, MeshFormat::ply),
                               mesh_text(mesh, MeshFormat::stl), ply_square(std::endian::big),
                               stl_header("", 1) + stl_triangle({0, 0, 0, 1, 0, 0, 0, 1, 0})};
  const MeshFormat formats[] = {MeshFormat::off, MeshFormat::ply, MeshFormat::stl, MeshFormat::ply,
                                MeshFormat::stl};
  for (std::size_t f = 0; f < std::size(files); ++f) {
    // The end of the last line, and the name of the solid there, may be missing.
    constexpr std::string_view kEnd = " mesh\n";
    const std::size_t whole =
        files[f].size() - (files[f].ends_with(kEnd) ? kEnd.size() : files[f].back() == '\n');
    for (std::size_t size = 0; size + 1 < whole; ++size)
      EXPECT_THROW(parse_mesh(files[f].substr(0, size), formats[f], "mesh"), Error)
          << f << " " << size;
  }
}

struct OddMesh {
  MeshFormat format;
  std::string text;
  std::size_t edges, vertices;
  const char* expected;
};

TEST(Mesh, SaysWhereItIsNotManifold) {
  const std::string book =  // three pages
      "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 -1 0\nf 1 2 3\nf 2 1 4\nf 1 2 5\n";
  const std::string bow = "OFF\n5 2 0\n0 0 0\n1 0 0\n1 1 0\n-1 0 0\n-1 1 0\n3 0 1 2\n3 0 3 4\n";
  std::string stl = stl_header("", 2) + stl_triangle({0, 0, 0, 1, 0, 0, 1, 1, 0}) +
                    stl_triangle({0, 0, 0, -1, 0, 0, -1, 1, 0});
  const OddMesh rows[] = {
      {MeshFormat::obj, book, 1, 0,
       "mesh:8: not manifold: 3 triangles meet in the edge from vertex 1 to vertex 2 (lines 6, 7, "
       "8)"},
      {MeshFormat::off, bow, 0, 1,
       "mesh:9: not manifold: the triangles at vertex 0 are 2 fans (lines 8, 9)"},
      {MeshFormat::stl, stl, 0, 1,
       "mesh: face 1: not manifold: the triangles at vertex (0 0 0) are 2 fans (faces 0, 1)"},
      {MeshFormat::obj, book + "v 9 0 0\nv 9 1 0\nf 5 6 7\n", 1, 1,
       "mesh:11: not manifold: the triangles at vertex 5 are 2 fans (lines 8, 11)"},
      // Two triangles with different orientations, and two with the same corners, are manifold.
      {MeshFormat::obj, "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 3 4\n", 0, 0, nullptr},
      {MeshFormat::obj, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 3 2 1\n", 0, 0, nullptr},
  };
  for (const OddMesh& row : rows) {
    SCOPED_TRACE(row.text);
    MeshNotes notes;
    parse_mesh(row.text, row.format, "mesh", {}, &notes);
    EXPECT_EQ(notes.edges, row.edges);
    EXPECT_EQ(notes.vertices, row.vertices);
    ASSERT_EQ(notes.sentences.size(), row.edges + row.vertices);
    if (row.expected == nullptr) {
      EXPECT_NO_THROW(parse_mesh(row.text, row.format, "mesh", {.strict = true}));
      continue;
    }
    EXPECT_EQ(notes.sentences.back(), row.expected);
    EXPECT_THROW(parse_mesh(row.text, row.format, "mesh", {.strict = true}), Error);
  }
  std::string many = "v 0 0 0\n";
  for (int k = 1; k <= 30; ++k) {
    for (int j = 0; j < 2; ++j) many += "v " + std::to_string(k) + " " + std::to_string(j) + " 0\n";
    many += "f 1 -1 -2\n";
  }
  MeshNotes notes;
  parse_mesh(many, MeshFormat::obj, "mesh", {}, &notes);
  EXPECT_EQ(notes.vertices, 1u);
  EXPECT_TRUE(
      notes.sentences[0].ends_with(" are 30 fans (lines 4, 7, 10, 13, 16, 19, 22, 25, 28, "
                                   "31, ...)"))
      << notes.sentences[0];
}

}  // namespace
}  // namespace topograd::test
