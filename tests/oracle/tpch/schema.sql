create table region (r_regionkey int primary key, r_name varchar, r_comment varchar);
create table nation (n_nationkey int primary key, n_name varchar, n_regionkey int, n_comment varchar);
create table supplier (s_suppkey int primary key, s_name varchar, s_address varchar, s_nationkey int, s_phone varchar, s_acctbal decimal(15, 2), s_comment varchar);
create table customer (c_custkey int primary key, c_name varchar, c_address varchar, c_nationkey int, c_phone varchar, c_acctbal decimal(15, 2), c_mktsegment varchar, c_comment varchar);
create table part (p_partkey int primary key, p_name varchar, p_mfgr varchar, p_brand varchar, p_type varchar, p_size int, p_container varchar, p_retailprice decimal(15, 2), p_comment varchar);
create table partsupp (ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost decimal(15, 2), ps_comment varchar, primary key (ps_partkey, ps_suppkey));
create table orders (o_orderkey int primary key, o_custkey int, o_orderstatus varchar, o_totalprice decimal(15, 2), o_orderdate date, o_orderpriority varchar, o_clerk varchar, o_shippriority int, o_comment varchar);
create table lineitem (l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity decimal(15, 2), l_extendedprice decimal(15, 2), l_discount decimal(15, 2), l_tax decimal(15, 2), l_returnflag varchar, l_linestatus varchar, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct varchar, l_shipmode varchar, l_comment varchar, primary key (l_orderkey, l_linenumber));
